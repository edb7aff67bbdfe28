package textutil

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	v := NewSecrets("sk-1", `a"b<c`, " sk-12345\n", "abc")
	for in, want := range map[string]string{
		"key sk-1, key sk-12345":   "key " + Redacted + ", key " + Redacted,
		`{"m":"a\"b<c"}`:           `{"m":"` + Redacted + `"}`,
		`{"m":"a\"b\u003cc"}`:      `{"m":"` + Redacted + `"}`,
		`plain a"b<c`:              "plain " + Redacted,
		"abc is too short to take": "abc is too short to take",
		"nothing":                  "nothing",
	} {
		if got := v.String(in); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
		if got := string(v.Bytes([]byte(in))); got != want {
			t.Errorf("%q as bytes: %q, not %q", in, got, want)
		}
	}
	var none *Secrets
	if NewSecrets("abc") != nil || none.String("x") != "x" || string(none.Bytes([]byte("x"))) != "x" ||
		none.Longest() != 0 {
		t.Error("no secrets change nothing")
	}
}

// TestSecretsAreRemovedInAllForms checks the forms in which servers, ops and logs print a key.
func TestSecretsAreRemovedInAllForms(t *testing.T) {
	t.Parallel()
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Trim(string(b), `"`)
	}
	for _, secret := range []string{"sk-live-\"q\\ü%41/+=\t9Zz7Yx5W", `sk"q\x/é-ZZZZZZZZ9`, "sk-simple-0123456789abcdef",
		"pä55"} {
		v := NewSecrets(secret)
		latin := ""
		for _, b := range []byte(secret) {
			latin += string(rune(b))
		}
		for form, text := range map[string]string{
			"plain": secret, "JSON": quote(secret), "JSON in JSON": quote(quote(secret)), "Latin-1": latin,
			"JSON of Latin-1":        quote(latin),
			"ASCII JSON":             strings.NewReplacer("ü", `\u00fc`, "é", `\u00e9`, "ä", `\u00e4`).Replace(quote(secret)),
			"Python repr":            strings.NewReplacer(`\`, `\\`, "\t", `\t`).Replace(secret),
			"query":                  url.QueryEscape(secret),
			"path":                   url.PathEscape(secret),
			"Python quote of a path": strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(secret)),
			"Python quote":           strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
		} {
			if got := v.String("key " + text + "."); got != "key "+Redacted+"." {
				t.Errorf("%s of %q: %q", form, secret, got)
			}
		}
		for _, before := range []string{"", "B", "Be", "Bearer "} {
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				text := enc.EncodeToString([]byte(before + secret + "\n"))
				if got := v.String(text); !strings.Contains(got, Redacted) || len(got) > len(text)-len(secret)+len(Redacted) {
					t.Errorf("base64 of %q: %q", before+secret, got)
				}
			}
		}
	}
}

func TestSecretName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"api_key", "API-Key", "key", "subscription-key", "X-Amz-Signature", "sig", "accessToken",
		"X-Amz-Security-Token", "client_secret", "password", "code", "auth", "key[]", "key1", "Authorization", "Cookie"} {
		if !SecretName(name) {
			t.Errorf("%s is no secret", name)
		}
	}
	for _, name := range []string{"api-version", "max_tokens", "model", "region", "encode", "bypass", "X-Request-Id",
		"keys", "X-Amz-Date", ""} {
		if SecretName(name) {
			t.Errorf("%s is a secret", name)
		}
	}
}
