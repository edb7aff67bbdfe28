package textutil

import "testing"

func TestSecretsAreTakenOut(t *testing.T) {
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
	if NewSecrets("abc") != nil || none.String("x") != "x" || string(none.Bytes([]byte("x"))) != "x" || none.Longest() != 0 {
		t.Error("no secrets change nothing")
	}
}
