"""What the SQL view of the page consists of besides endpoints: scripts, sessions and results as text."""
