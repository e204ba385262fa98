from tests.reports.conftest import rows_writer, writer

__all__ = ["rows_writer", "writer"]
