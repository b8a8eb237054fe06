"""The colours of the report pages as variables of the site's two schemes, so that both are of one family."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from oneword.plot.look import DARK, LIGHT

_SCHEMES = {"default": LIGHT, "slate": DARK}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    rules = ""
    for scheme, colours in _SCHEMES.items():
        variables = " ".join(f"--{role}: {value};" for role, value in colours.items())
        rules += f'[data-md-color-scheme="{scheme}"] {{ {variables} }}\n'
    files.append(File.generated(config, "assets/colours.css", content=rules))
    return files
