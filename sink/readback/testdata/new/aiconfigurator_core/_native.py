"""Operations that the engine builds from their description."""

import json


class Native:
    def __init__(self, spec):
        ((kind, values),) = json.loads(spec).items()
        name, measured = values.pop("name"), values.pop("measured")
        if kind != "Dsv41Linear" or name != "dsv41_module" or measured:
            raise ValueError("no operation " + kind)
        self.query = {"geometry": json.dumps(values, separators=(",", ":"))}


op_from_spec_json = Native
