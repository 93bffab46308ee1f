"""Records in a database, by SQLAlchemy: imported where a URL names one."""
