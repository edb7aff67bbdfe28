// Package textutil formats text that is shown or stored: numbers, suggestions for misspelt
// names, shortened lines, Markdown, control characters made visible, and secrets removed.
// Every package may import it.
package textutil

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Clip shortens s to n columns, the last three of them "...". Whitespace stays
// as it is.
func Clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n || n < 4 {
		return s
	}
	return string(r[:n-3]) + "..."
}

// OneLine joins the words of s by single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// First joins some texts and counts the others: "a, b and 3 more", or "a; b; and 3 more" if sep is a semicolon.
func First(list []string, most int, sep string) string {
	if len(list) <= most {
		return strings.Join(list, sep)
	}
	return strings.Join(list[:most], sep) + strings.TrimPrefix(sep, ",") + fmt.Sprintf("and %d more", len(list)-most)
}

// DidYouMean returns ' Did you mean "X"?' with the most similar candidate, to be appended
// to a sentence, or "" if no candidate is similar.
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return ` Did you mean "` + near + `"?`
	}
	return ""
}

// WithArticle returns a word with its article: "a gate", "an export".
func WithArticle(word string) string {
	if strings.ContainsAny(word[:min(1, len(word))], "aeio") {
		return "an " + word
	}
	return "a " + word
}

// Nearest returns the candidate that is likely meant by word, or "".
func Nearest(word string, candidates []string) string {
	if near := Near(word, candidates, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near returns up to most candidates that word may be a misspelling or a part of, best
// first. Candidates of equal distance are sorted by wrong letters and then by name. Up to a
// third of the letters may be wrong, one of three to five. If a candidate begins or ends
// with word, or a part of it between signs does, as gemm_dtype does with dtype, that counts
// as one wrong letter. Of candidates of equal distance, one that word has before a sign is first.
func Near(word string, candidates []string, most int) []string {
	type scored struct {
		name        string
		score, real int
	}
	given := strings.ToLower(word)
	limit := max(1, len(given)/3)
	if len(given) < 3 {
		limit = 0 // anything is near to one letter
	}
	var found []scored
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		other := strings.ToLower(c)
		if c == word || other == "" || given == "" {
			continue
		}
		d := distance(given, other)
		wrong := d
		partOf := len(given) > 2 && endsPart(other, given)
		switch {
		case partOf || strings.HasPrefix(other, given) || len(given) <= 3*len(other) && strings.HasPrefix(given, other):
			d = min(d, max(1, limit))
		case d > limit || d >= len(other):
			continue
		}
		if rest, ok := strings.CutPrefix(given, other); ok && rest != "" && strings.Contains("-_.", rest[:1]) {
			wrong = 0 // a suffix, such as the format of a checkpoint
		}
		found = append(found, scored{c, d, wrong})
	}
	slices.SortStableFunc(found,
		func(a, b scored) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.real, b.real)) })
	var out []string
	for _, s := range found[:min(most, len(found))] {
		out = append(out, s.name)
	}
	return slices.Compact(out)
}

// endsPart reports whether a part of name between signs, such as dtype of gemm_dtype, begins or ends with word.
func endsPart(name, word string) bool {
	letter := func(r byte) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= utf8.RuneSelf }
	at := strings.Index(name, word)
	end := at + len(word)
	return at >= 0 && (at == 0 || end == len(name) || !letter(name[at-1]) || !letter(name[end]))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours.
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	before, above, row := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		row[0] = i
		for j := 1; j <= len(rb); j++ {
			wrong := 1
			if ra[i-1] == rb[j-1] {
				wrong = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+wrong)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(rb)]
}

// Wrap breaks text into at most the given number of lines of the given width, between words
// if possible. Text that does not fit ends in "...".
func Wrap(text string, wide, lines int) []string {
	wide, lines = max(wide, 8), max(lines, 1)
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > wide { // no line has room for it
			if line != "" {
				out, line = append(out, line), ""
			}
			head := []rune(word)[:wide]
			out, word = append(out, string(head)), word[len(string(head)):]
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > wide:
			out, line = append(out, line), word
		default:
			line += " " + word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	if len(out) > lines {
		rest := strings.Join(out[lines-1:], " ")
		out = append(out[:lines-1], Clip(rest, wide))
	}
	return out
}
