# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Results as JSON, figures in one style, and the page that shows them."""
from .report import Report, Table, command_line, read_report
from .story import find_reports, tell

__all__ = ['Report', 'Table', 'command_line', 'find_reports', 'read_report',
           'tell']
