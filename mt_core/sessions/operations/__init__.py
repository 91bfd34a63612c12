"""Operations: the execution of statements, with their pages, jobs and deadlines."""
