package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Key returns the canonical JSON of v and its digest. Equal values have equal keys: object members are
// sorted, whitespace is removed, and numbers have one form (1, 1.0 and 1e0 are equal). Integers are exact;
// other numbers are those of float64. v is any value that encoding/json accepts; NaN, infinities and functions
// are errors.
func Key(v any) (digest string, canonical []byte, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", nil, fmt.Errorf("cannot hash: %w", err)
	}
	canonical, err = Canonical(data)
	if err != nil {
		return "", nil, err
	}

	return Digest(canonical), canonical, nil
}

// MustKey is Key for values that can always be encoded, such as values of blocks. It panics for others.
func MustKey(v any) (digest string, canonical []byte) {
	digest, canonical, err := Key(v)
	if err != nil {
		panic(fmt.Sprintf("checkpoint: %v: %v", v, err))
	}
	return digest, canonical
}

// Canonical rewrites JSON to the form that Key hashes. It does not change data.
func Canonical(data []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(data))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("cannot hash: %w", err)
	}
	return v, nil
}

// decodeJSON decodes one value. Numbers are exact.
func decodeJSON(data []byte) (any, error) {
	data, err := Canonical(data)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	return v, dec.Decode(&v)
}
