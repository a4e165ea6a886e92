"""How large a tree is: statements and files of each package, class names defined twice, words.

    .venv/bin/python bench/lines.py                 this tree
    .venv/bin/python bench/lines.py TREE OTHER      two of them, side by side

A statement is a node of the syntax tree, wherever its lines break; docstrings do not count.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parents[1]


def parsed(tree: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every module of src, and the package that it belongs to."""
    source = tree / "src" / "tidings"
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source).parts[0].removesuffix(".py"), ast.parse(path.read_bytes())


def is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def names_defined_twice(tree: Path) -> list[str]:
    nodes = (node for _, module in parsed(tree) for node in ast.walk(module))
    count = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return sorted(name for name in count if count[name] > 1)


def sizes(tree: Path) -> dict[str, int]:
    statements, files = Counter[str](), 0
    for package, module in parsed(tree):
        nodes = ast.walk(module)
        statements[package] += sum(isinstance(n, ast.stmt) and not is_docstring(n) for n in nodes)
        files += 1
    docs = (tree / "README.md", *sorted((tree / "docs").glob("*.md")))
    return {
        **dict(sorted(statements.items())),
        "statements": statements.total(),
        "files": files,
        "class names defined twice": len(names_defined_twice(tree)),
        "words of docs": sum(len(path.read_text().split()) for path in docs),
    }


def main() -> None:
    trees = [Path(word) for word in sys.argv[1:3]] or [HERE]
    found = [sizes(tree) for tree in trees]
    names = dict.fromkeys(name for of_tree in found for name in of_tree)
    for name in sorted(names, key=lambda name: " " in name or name in ("statements", "files")):
        counts = [of_tree.get(name, 0) for of_tree in found]
        change = (
            f"{100 * (counts[-1] / counts[0] - 1):>+9.1f} %" if len(found) > 1 and counts[0] else ""
        )
        print(f"{name:<26}" + "".join(f"{count:>9,}" for count in counts) + change)
    if len(trees) == 1:
        print("\n" + " ".join(names_defined_twice(trees[0])))


if __name__ == "__main__":
    main()
