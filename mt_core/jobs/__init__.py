"""Jobs of statements that change data: the job store, and job status hooks with their calls."""
