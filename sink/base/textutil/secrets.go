// Package redact takes secrets out of text that is shown or stored.
package textutil

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Redacted stands in the place of a secret.
const Redacted = "(sensitive value)"

// MinSecret is the least length, in bytes, of a secret that is looked for in text:
// a shorter one would be found in words that have nothing to do with it.
const MinSecret = 4

// Secrets are secrets. Nil holds none.
type Secrets struct{ forms [][]byte }

// New takes secrets, as they are and as they look inside of JSON; nil where none
// is long enough.
func NewSecrets(secrets ...string) *Secrets {
	var v Secrets
	add := func(form string) {
		b := []byte(form)
		if !slices.ContainsFunc(v.forms, func(have []byte) bool { return bytes.Equal(have, b) }) {
			v.forms = append(v.forms, b)
		}
	}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < MinSecret {
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
func (v *Secrets) Bytes(b []byte) []byte {
	if v == nil {
		return b
	}
	for _, form := range v.forms {
		if bytes.Contains(b, form) {
			b = bytes.ReplaceAll(b, form, []byte(Redacted))
		}
	}
	return b
}

// String is s without the secrets.
func (v *Secrets) String(s string) string {
	if v == nil {
		return s
	}
	for _, form := range v.forms {
		s = strings.ReplaceAll(s, string(form), Redacted)
	}
	return s
}

// Longest is the length of the longest form; 0 without any.
func (v *Secrets) Longest() int {
	if v == nil {
		return 0
	}
	return len(v.forms[0])
}
