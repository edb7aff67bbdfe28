package textutil

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agext/levenshtein"
	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	columns := []string{"gemm_dtype", "latency", "num_heads", "m", "n"}
	for word, want := range map[string]string{
		"latncy":      "latency",
		"latenyc":     "latency", // a swap is one mistake
		"LATENCY":     "latency",
		"dtype":       "gemm_dtype",
		"num_head":    "num_heads",
		"num_heads_":  "num_heads",
		"mm":          "m",
		"k":           "",
		"bandwidth":   "",
		"":            "",
		"latency":     "", // it is there: no misspelling
		"lat":         "latency",
		"gem_dtyp":    "gemm_dtype",
		"number_head": "",
		"ten":         "", // inside of latency
		"head":        "num_heads",
	} {
		if got := Nearest(word, columns); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Near("node", []string{"nodes", "mode", "code", "node_num", "x"}, 3); fmt.Sprint(got) != "[code mode nodes]" {
		t.Errorf("Near = %v", got)
	}
	models := []string{"Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B", "Qwen/Qwen3-8B"}
	if got := Nearest("Qwen/Qwen3-32B-FP8", models); got != "Qwen/Qwen3-32B" {
		t.Errorf("Nearest = %q", got)
	}
	if got := DidYouMean("latncy", columns); got != ` Did you mean "latency"?` {
		t.Errorf("DidYouMean = %q", got)
	}
	if got := DidYouMean("bandwidth", columns); got != "" {
		t.Errorf("DidYouMean = %q", got)
	}
}

// TestDistance: without swaps it is the Levenshtein distance, and a swap of two
// neighbours costs one.
func TestDistance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOfN(rapid.SampledFrom([]rune("abcé_")), 0, 8)
		a, b := string(letters.Draw(t, "a")), string(letters.Draw(t, "b"))
		d := distance(a, b)
		if full := levenshtein.Distance(a, b, nil); d > full || d < (full+1)/2 || d != distance(b, a) {
			t.Fatalf("distance(%q, %q) = %d, Levenshtein's is %d", a, b, d, full)
		}
	})
	if d := distance("latenyc", "latency"); d != 1 {
		t.Errorf("a swap costs %d", d)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
	}{
		{Clip("abcdefgh", 8), "abcdefgh"},
		{Clip("abcdefghi", 8), "abcde..."},
		{Clip("äöüäöüäöü", 8), "äöüäö..."},
		{Clip("abcdefghi", 3), "abcdefghi"},
		{OneLine(" a\n\tb  c "), "a b c"},
		{Cell("a|b\r\nc<d"), `a\|b  c&lt;d`},
		{Cell(`a\|b\\|c\d`), `a\\\|b\\\\\|c\d`},
		{Cell(`collect.op["gemm"]`), `collect.op["gemm"]`},
		{Inline("[x](https://evil) ![y][z] [z]: //evil <b>"), `[x]\(https://evil) ![y]\[z] [z]\: //evil &lt;b>`},
		{Code("a`|<b>\n[x](y)"), "`a'\\|<b> [x](y)`"},
		{Code(""), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if long := strings.Repeat("x", 100); len(Clip(long, 10)) != 10 {
		t.Error("a clipped text is longer than asked")
	}
}
