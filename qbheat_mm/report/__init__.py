# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Results as JSON, figures in one style, and the page that shows them."""
from .report import Report, command_line, read_report
from .story import find_reports, render_page
from .table import Table, markdown_table

__all__ = ['Report', 'Table', 'command_line', 'find_reports',
           'markdown_table', 'read_report', 'render_page']
