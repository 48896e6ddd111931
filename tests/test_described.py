"""Fields of models are described by the text below them, as pydantic's own reading of it has them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trace_assets.described import Described
from trace_assets.records import TABLES
from trace_assets.settings import Settings


class Base(Described):
    model_config = ConfigDict(defer_build=True)

    one: int = 1
    """What one is,
    over two lines."""
    bare: int = 2
    said: int = Field(3, description="said in the field")
    """Said below it as well."""

    class Inner(Described):
        model_config = ConfigDict(defer_build=True)
        deep: int = 0
        """Within a class."""


class Below(Base):
    two: str = ""
    """What two is."""

    one: int = 5


def test_text_below_a_field_describes_it() -> None:
    said = {name: field.description for name, field in Base.model_fields.items()}
    assert said == {"one": "What one is,\nover two lines.", "bare": None, "said": "said in the field"}
    assert Base.Inner.model_fields["deep"].description == "Within a class."


def test_fields_of_a_base_keep_theirs_and_what_is_declared_anew_has_its_own() -> None:
    said = {name: field.description for name, field in Below.model_fields.items()}
    assert said["said"] == "said in the field" and said["two"] == "What two is." and said["one"] is None


def test_classes_of_one_name_in_one_file_are_told_apart() -> None:
    def first() -> type[BaseModel]:
        class Same(Described):
            a: int = 0
            """The first."""

        return Same

    def second() -> type[BaseModel]:
        class Same(Described):
            a: int = 0
            """The second."""

        return Same

    assert [one().model_fields["a"].description for one in (first, second)] == ["The first.", "The second."]


def test_a_class_without_a_file_has_no_descriptions() -> None:
    names: dict[str, type[BaseModel]] = {}
    source = 'class Typed(Described):\n    a: int = 0\n    """Lost."""\n'
    exec(source, {"Described": Described, "__name__": "typed_in"}, names)
    assert names["Typed"].model_fields["a"].description is None


def test_schemas_hold_the_descriptions() -> None:
    properties = Settings.model_json_schema()["$defs"]["Selection"]["properties"]
    assert properties["min_gap"]["description"].startswith("Least contrastive gap")
    told = [record for record in TABLES if any(f.description for f in record.model_fields.values())]
    assert len(told) > len(TABLES) / 2
    for record in told:
        shown = record.model_json_schema()["properties"]
        assert {name: one.get("description") for name, one in shown.items() if "$ref" not in one} == {
            name: field.description
            for name, field in record.model_fields.items()
            if "$ref" not in shown[name]
        }
