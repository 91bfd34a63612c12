"""Jobs of statements that change data: the job store, and the calls of job status hooks."""
