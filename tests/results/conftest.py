from tests.reports.conftest import report, unrendered, writer

__all__ = ["report", "unrendered", "writer"]
