package textutil

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func sample() *Table {
	t := new(Table).Left("stage").Right("rows").Left("message")
	t.Row("collect.gemm", 1200, "all cases were measured again because the op changed")
	t.Row("gate.gemm", 7, "ok")
	return t
}

func TestTableText(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		0: `  stage         rows  message
  collect.gemm  1200  all cases were measured again because the op changed
  gate.gemm        7  ok
`,
		50: `  stage         rows  message
  collect.gemm  1200  all cases were measured
                      again because the op changed
  gate.gemm        7  ok
`,
		24: `  collect.gemm
      rows 1200, message
      all cases were
      measured again
      because the op
      changed
  gate.gemm
      rows 7, message ok
`,
	} {
		var b strings.Builder
		if err := sample().Text(&b, "  ", width); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d:\n%s\nwant:\n%s", width, b.String(), want)
		}
	}
}

// TestTableKeepsWords prints at every width: no line is wider, and no word is broken.
func TestTableKeepsWords(t *testing.T) {
	t.Parallel()
	for width := 24; width < 90; width++ {
		var b strings.Builder
		if err := sample().Text(&b, "", width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
		for _, word := range strings.Fields("collect.gemm gate.gemm all cases were measured again because the op changed") {
			if !strings.Contains(b.String(), word) {
				t.Errorf("width %d lacks %q:\n%s", width, word, b.String())
			}
		}
	}
}

func TestTableMarkdown(t *testing.T) {
	t.Parallel()
	table := new(Table).Left("case").Right("count")
	table.Row("a|b\n<c>", 3)
	table.Row("`x`", "")
	var b strings.Builder
	if err := table.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := "| case | count |\n|---|---:|\n| a\\|b &lt;c> | 3 |\n| `x` |  |\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
