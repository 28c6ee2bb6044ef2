"""The production job: which state it resumes, the queries it runs, and what their failures mean."""
