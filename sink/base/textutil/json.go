package textutil

import (
	"bytes"
	"encoding/json"
)

// DecodeJSON decodes the first JSON value of a text. Numbers in values of type any are json.Number, so that they keep
// all digits.
func DecodeJSON(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}
