package textutil

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":             "plain\ttext\n",
		"größe → 3 µs":              "größe → 3 µs",
		"\x1b]0;PWNED\x07":          `\u001b]0;PWNED\u0007`,
		"\x1b[2J":                   `\u001b[2J`,
		"a\x00b\x7f\r":              `a\u0000b\u007f\u000d`,
		"\u009b31m":                 `\u009b31m`,
		"abc\u202edef":              `abc\u202edef`,
		"zero\u200bwidth\u2066":     `zero\u200bwidth\u2066`,
		"tag\U000e0041":             `tag\udb40\udc41`,
		"bad \xff utf8":             `bad \ufffd utf8`,
		"the rune itself \ufffd ok": "the rune itself \ufffd ok",
	} {
		if got := Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got := VisibleLine("one\ntwo\r\nthree\tfour\x1b"); got != `one two three four\u001b` {
		t.Errorf("Line: %q", got)
	}
}

func TestFormulas(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"=1+1": "'=1+1", "@SUM(A1)": "'@SUM(A1)", "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0", "-2+3+cmd": "'-2+3+cmd",
		"-5": "-5", "+1.5e-3": "+1.5e-3", "-inf": "-inf", "nvjet": "nvjet", "": "", "a=b": "a=b",
	} {
		if got := SpreadsheetCell(in); got != want {
			t.Errorf("SpreadsheetCell(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	write := func(colors bool, parts ...string) string {
		var b bytes.Buffer
		w := &Writer{W: &b, Colors: colors}
		for _, p := range parts {
			if n, err := w.Write([]byte(p)); err != nil || n != len(p) {
				t.Fatal(n, err)
			}
		}
		return b.String()
	}
	if got := write(false, "\x1b[31mred"); got != `\u001b[31mred` {
		t.Errorf("off a terminal: %q", got)
	}
	if got := write(true, "\x1b[31mred\x1b[0m \x1b[8mhidden \x1b[5m\x1b[2J\x1b]0;t\x07 \x1b[1;31m\x1b["); got != "\x1b[31mred\x1b[0m "+`\u001b[8mhidden \u001b[5m\u001b[2J\u001b]0;t\u0007 `+"\x1b[1;31m"+`\u001b[` {
		t.Errorf("on a terminal: %q", got)
	}
	// A character that is split between two writes is whole.
	s := "µ→😀"
	var parts []string
	for i := range len(s) {
		parts = append(parts, s[i:i+1])
	}
	if got := write(false, parts...); got != s {
		t.Errorf("split text: %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\x00\r\u202e") || Visible(got) != got {
			t.Errorf("Visible(%q) = %q", s, got)
		}
		// What is inside of JSON stays JSON of the same value.
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		if json.Unmarshal(data, &a) != nil || json.Unmarshal([]byte(Visible(string(data))), &b) != nil || a != b {
			t.Errorf("%q: %q and %q", s, a, b)
		}
	})
}
