"""Write the schema below the mark of docs/configuration.md, as one table per section.

python packaging/settings_table.py
"""

from pathlib import Path

from tokenmill.settings.describe import show_value
from tokenmill.settings.schema import SECTIONS
from tokenmill.settings.section import describe_type, list_settings

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
MARK = "<!-- schema -->\n"
MARKS = {"prepare": " †", "train": " ‡"}


def make_table() -> str:
    """Return the schema as one Markdown table per section."""
    parts = []
    for section, model in SECTIONS.items():
        parts += [f"### `{section}`", "", model.__doc__ or "", "", "| key | type | default | meaning |"]
        parts.append("|---|---|---|---|")
        for key, setting in list_settings(model).items():
            default = "automatic" if "automatic" in setting.help or "Default:" in setting.help else "none"
            if setting.default is not None:
                default = f"`{show_value(setting.default)}`"
            mark = " \\*" if setting.affects_output else ""
            mark += MARKS.get(setting.only or "", "") if setting.only != model.job else ""
            cells = (f"`{key}`{mark}", describe_type(setting.annotation), default, setting.help)
            # A bar inside a cell would end it.
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(
        PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + make_table(), encoding="utf-8"
    )
