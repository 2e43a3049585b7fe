from html.parser import HTMLParser

import torch

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_core.testing._laws._copies import NoOperations


class Texts(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(linop: NamedLinop) -> Texts:
    with NoOperations():  # type: ignore[no-untyped-call]
        return Texts(linop._repr_html_())


def test_an_operator_is_a_table_of_its_parts_with_sizes_and_roles() -> None:
    S = Dense(torch.ones(8, 4, 3), ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    page = shown(FFT(2) @ S)
    assert page.tags.count("tr") == 4
    assert page.texts[0] == "C output, Kx opaque, Ky opaque, Nx opaque, Ny opaque"
    assert {"Nx 4, Ny 3", "C 8, Nx 4, Ny 3", "Dense", "384 B"} <= {*page.texts}


def test_names_of_users_are_escaped() -> None:
    D = Diagonal(torch.ones(2), ("N",))
    D._name = "<script>"
    page = shown(D @ D.H)
    assert "script" not in page.tags and "<script>" in page.texts


def test_all_dimensions_without_sizes_are_shown() -> None:
    assert "..., Nx" in shown(FFT(1)).texts
