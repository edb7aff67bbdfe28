package textutil

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Visible shows control characters other than newline and tab, and those that
// reorder or hide text, in the form of JSON: \u001b for the escape character.
// Bytes that are no UTF-8 become \ufffd. Text inside of JSON stays JSON.
func Visible(s string) string {
	s = strings.ToValidUTF8(s, `\ufffd`)
	if !strings.ContainsFunc(s, hidden) {
		return s
	}

	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			escape(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// VisibleLine is Visible for one line: line breaks and tabs become spaces.
func VisibleLine(s string) string {
	return Visible(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(s))
}

// SpreadsheetCell returns text for a table that may be opened in a spreadsheet. Text that a
// spreadsheet would run as a formula gets an apostrophe in front.
func SpreadsheetCell(s string) string {
	if Formula(s) {
		return "'" + s
	}
	return s
}

// Formula reports whether a spreadsheet runs a text as a formula. Numbers with a sign are
// not formulas.
func Formula(s string) bool {
	if s == "" {
		return false
	}
	switch s[0] {
	case '=', '@', '\t', '\r':
		return true
	case '+', '-':
		return strings.Trim(s[1:], "0123456789.eE+-") != "" && !strings.EqualFold(s[1:], "inf") &&
			!strings.EqualFold(s[1:], "infinity")
	}
	return false
}

// Control returns the first character that a value of a measurement must not contain, and
// whether there is one.
func Control(s string) (r rune, found bool) {
	for _, r := range s {
		if hidden(r) || r == '\n' || r == '\t' {
			return r, true
		}
	}
	return 0, false
}

// maxValue is the maximum length of a value in bytes: it is a name or a short list.
const maxValue = 64 << 10

// Unfit returns why a text cannot be a value of a perf table, or "". Some readers of perf
// files stop at a NUL, and spreadsheets run formulas.
func Unfit(s string) string {
	if len(s) > maxValue {
		return fmt.Sprintf("contains a text of %d bytes; %d are the most of a value", len(s), maxValue)
	}
	if r, found := Control(s); found {
		return fmt.Sprintf("contains the control character %U", r)
	}
	if Formula(s) {
		return fmt.Sprintf("begins like a formula of a spreadsheet: %.40q", s)
	}
	return ""
}

// NotUTF8 returns the place of the first byte that belongs to no character, or -1.
func NotUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// hidden reports whether a character is a control other than newline and tab, a separator of lines that terminals
// break at, or a mark that changes the direction of text or is not seen.
func hidden(r rune) bool {
	if r < unicode.MaxASCII {
		return r < ' ' && r != '\n' && r != '\t'
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func escape(b *strings.Builder, r rune) {
	if r > 0xffff {
		r -= 0x10000
		fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}

// Writer writes text to W as Text shows it. A carriage return before a newline
// is a part of it. It is safe for concurrent use.
type Writer struct {
	W io.Writer
	// Colors lets escape sequences through that only set colours and weight, for
	// terminals.
	Colors bool
	// Secrets are removed from the written text.
	Secrets *Secrets

	mu   sync.Mutex
	rest []byte // of a character that the last Write did not end
}

func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := string(append(w.rest, p...))
	w.rest = nil
	if n := incomplete(s); n > 0 {
		w.rest = []byte(s[len(s)-n:])
		s = s[:len(s)-n]
	}
	if s = w.show(w.Secrets.String(s)); s == "" {
		return len(p), nil
	}
	if _, err := io.WriteString(w.W, s); err != nil {
		return 0, err
	}
	return len(p), nil
}

// colours matches escape sequences that only set colours and weight, not hidden or blinking text.
var colours = regexp.MustCompile(`\x1b\[([0-4]?|2[2-4]|39|[39][0-7])(;([0-4]?|2[2-4]|39|[39][0-7]))*m`)

func (w *Writer) show(s string) string {
	if !w.Colors {
		return Visible(s)
	}

	var b strings.Builder
	shown := 0
	for _, at := range colours.FindAllStringIndex(s, -1) {
		b.WriteString(Visible(s[shown:at[0]]) + s[at[0]:at[1]])
		shown = at[1]
	}
	return b.String() + Visible(s[shown:])
}

// incomplete is how many bytes at the end of s begin a character that more
// bytes may end.
func incomplete(s string) int {
	for n := 1; n <= min(3, len(s)); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Raw returns the writer that a Writer writes to, for binary data. It returns other writers
// unchanged.
func Raw(w io.Writer) io.Writer {
	if v, ok := w.(*Writer); ok {
		return v.W
	}
	return w
}
