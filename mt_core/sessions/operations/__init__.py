"""Operations: statements at work, their pages, jobs and deadlines."""
