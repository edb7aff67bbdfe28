package textutil

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Redacted replaces a secret.
const Redacted = "(sensitive value)"

// MinSecret is the least length, in bytes, of a secret that is removed. A shorter one
// would be found in unrelated words.
const MinSecret = 4

// Secrets removes secrets from text. Nil has none.
type Secrets struct{ forms [][]byte }

// NewSecrets returns the secrets with the forms in which programs print them: as they are,
// in JSON, as Python repr, in URLs and in base64. It returns nil if none is long enough.
func NewSecrets(secrets ...string) *Secrets {
	var v Secrets
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < MinSecret {
			continue
		}
		for _, form := range forms(s) {
			if b := []byte(form); !slices.ContainsFunc(v.forms, func(have []byte) bool { return bytes.Equal(have, b) }) {
				v.forms = append(v.forms, b)
			}
		}
	}
	if len(v.forms) == 0 {
		return nil
	}

	// A secret that contains another one is removed as a whole.
	slices.SortFunc(v.forms, func(a, b []byte) int { return len(b) - len(a) })
	return &v
}

// forms returns what a secret looks like in the output of programs.
func forms(s string) []string {
	quoted := strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	out := []string{s, url.QueryEscape(s), url.PathEscape(s), quoted, strings.ReplaceAll(quoted, "%2F", "/")}

	// HTTP headers are Latin-1: a server may read each byte as one character.
	latin := make([]rune, 0, len(s))
	for _, b := range []byte(s) {
		latin = append(latin, rune(b))
	}
	for _, text := range []string{s, string(latin)} {
		for _, inner := range []string{text, jsonText(text, false), asciiJSON(text), repr(text, 0x100), repr(text, 0x80)} {
			out = append(out, inner, jsonText(inner, false), jsonText(inner, true), asciiJSON(inner))
		}
		out = append(out, encoded(text)...)
	}
	return out
}

// jsonText returns s as it is between the quotes of a JSON string.
func jsonText(s string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(s) // text is always valid
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// asciiJSON is jsonText with the escapes of Python's json module.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range jsonText(s, false) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			escape(&b, r)
		}
	}
	return b.String()
}

// repr returns s as Python's repr prints it between quotes, with escapes for letters from a code on: Python's
// ascii has them for all that are not ASCII.
func repr(s string, from rune) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\'' && strings.Contains(s, `"`):
			b.WriteString(`\'`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r > 0x7f && r <= 0xff && (r >= from || !unicode.IsPrint(r)):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff && from < 0x100:
			fmt.Fprintf(&b, `\U%08x`, r)
		case r > 0xff && from < 0x100:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// encoded returns the base64 forms of s at each of the three positions that it can have in
// a longer text, without the characters that depend on its neighbours.
func encoded(s string) []string {
	var out []string
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, shift), s...))
		text = text[(shift*8+5)/6 : (shift+len(s))*8/6]
		if len(text) >= MinSecret*4/3 {
			out = append(out, text, strings.NewReplacer("+", "-", "/", "_").Replace(text))
		}
	}
	return out
}

// Bytes returns b without the secrets: b itself if it has none.
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

// String returns s without the secrets.
func (v *Secrets) String(s string) string {
	if v == nil {
		return s
	}
	for _, form := range v.forms {
		s = strings.ReplaceAll(s, string(form), Redacted)
	}
	return s
}

// Longest returns the length of the longest form; 0 without any.
func (v *Secrets) Longest() int {
	if v == nil {
		return 0
	}
	return len(v.forms[0])
}

// SecretName reports whether a parameter or header of this name usually has a secret, such as api_key, accessToken or
// X-Amz-Signature.
func SecretName(name string) bool {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsLetter(c) {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
	return slices.Contains([]string{"code", "cookie", "jwt", "pass"}, name) ||
		slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

var secretEnds = []string{"key", "token", "secret", "password", "passwd", "passphrase", "pwd", "sig", "signature",
	"credential", "credentials", "auth", "authorization", "bearer"}
