// Package redact takes secrets out of text that is shown or stored.
package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Text stands in the place of a secret.
const Text = "(sensitive value)"

// Shortest is the least length, in bytes, of a secret that is looked for in text:
// a shorter one would be found in words that have nothing to do with it.
const Shortest = 4

// Values are secrets. Nil holds none.
type Values struct{ forms [][]byte }

// New takes secrets, as they are and as they look inside of JSON; nil where none
// is long enough.
func New(secrets ...string) *Values {
	var v Values
	add := func(form string) {
		b := []byte(form)
		if !slices.ContainsFunc(v.forms, func(have []byte) bool { return bytes.Equal(have, b) }) {
			v.forms = append(v.forms, b)
		}
	}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < Shortest {
			continue
		}
		add(s)
		for _, html := range []bool{false, true} {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(html)
			if enc.Encode(s) == nil {
				add(strings.Trim(strings.TrimSpace(b.String()), `"`))
			}
		}
	}
	if len(v.forms) == 0 {
		return nil
	}
	// A secret that holds another is taken out as a whole.
	slices.SortFunc(v.forms, func(a, b []byte) int { return len(b) - len(a) })
	return &v
}

// Bytes is b without the secrets; b itself where it has none.
func (v *Values) Bytes(b []byte) []byte {
	if v == nil {
		return b
	}
	for _, form := range v.forms {
		if bytes.Contains(b, form) {
			b = bytes.ReplaceAll(b, form, []byte(Text))
		}
	}
	return b
}

// String is s without the secrets.
func (v *Values) String(s string) string {
	if v == nil {
		return s
	}
	for _, form := range v.forms {
		s = strings.ReplaceAll(s, string(form), Text)
	}
	return s
}

// Longest is the length of the longest form; 0 without any.
func (v *Values) Longest() int {
	if v == nil {
		return 0
	}
	return len(v.forms[0])
}
