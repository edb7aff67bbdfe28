package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Key returns the canonical JSON of v and its digest. Equal values have equal keys: object members are
// sorted, whitespace is removed, and numbers are compared by their exact decimal value (1, 1.0 and 1e0
// are equal; 2^53+1 is exact). v is any value that encoding/json accepts; NaN, infinities and functions
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

// Canonical rewrites JSON to the form that Key hashes.
func Canonical(data []byte) ([]byte, error) {
	v, err := decodeJSON(data)
	if err != nil {
		return nil, fmt.Errorf("cannot hash: %w", err)
	}
	return appendCanonical(make([]byte, 0, len(data)), v)
}

func decodeJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}

	if dec.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}

	return v, nil
}

func appendCanonical(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v)
	case json.Number:
		return appendNumber(b, string(v))
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendCanonical(b, e); err != nil {
				return nil, err
			}
		}

		return append(b, ']'), nil

	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendString(b, k); err != nil {
				return nil, err
			}

			b = append(b, ':')
			if b, err = appendCanonical(b, v[k]); err != nil {
				return nil, err
			}
		}

		return append(b, '}'), nil
	}

	panic(fmt.Sprintf("checkpoint: %T in decoded JSON", v))
}

func appendString(b []byte, s string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}

	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}

// appendNumber appends the exact value of a JSON number, as an integer of up to 21 digits, as a decimal
// fraction, or as d.ddde<exponent>.
func appendNumber(b []byte, text string) ([]byte, error) {
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		e, err := strconv.Atoi(strings.TrimPrefix(rest[i+1:], "+"))
		if err != nil {
			return nil, fmt.Errorf("cannot hash: the exponent of %s is out of range", text)
		}
		mantissa, exponent = rest[:i], e
	}

	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	digits = trimmed
	if digits == "" {
		return append(b, '0'), nil
	}

	if negative {
		b = append(b, '-')
	}
	if exponent >= 0 && len(digits)+exponent <= 21 {
		b = append(b, digits...)
		return append(b, strings.Repeat("0", exponent)...), nil
	}

	if point := len(digits) + exponent; exponent < 0 && point > 0 {
		b = append(b, digits[:point]...)
		b = append(b, '.')
		return append(b, digits[point:]...), nil
	} else if exponent < 0 && point > -6 {
		b = append(b, "0."...)
		b = append(b, strings.Repeat("0", -point)...)
		return append(b, digits...), nil
	}

	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(b, '.')
		b = append(b, digits[1:]...)
	}

	b = append(b, 'e')
	return strconv.AppendInt(b, int64(exponent)+int64(len(digits))-1, 10), nil
}
