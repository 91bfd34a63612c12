"""Operations: the execution of statements, with result pages, jobs and deadlines."""
