"""What the suite cannot know, and the suite itself. Not part of the wheel."""
