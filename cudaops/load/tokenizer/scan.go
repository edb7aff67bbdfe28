package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// known maps patterns to functions that return the length of the first piece of a text. They are about forty times
// faster than the regular expressions, which matters because outputs are counted while a load runs.
var known = map[string]func(text string) int{
	modern + `\p{N}{1,3}` + modernRest: func(s string) int { return next(s, 3) }, // Llama 3
	modern + `\p{N}` + modernRest:      func(s string) int { return next(s, 1) }, // Qwen
	gpt2:                               nextGPT2,
}

const (
	modern     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	modernRest = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// class is a character class of the patterns.
type class uint8

const (
	other class = iota
	letter
	number
	blank
	lineEnd
)

func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		return ascii[r]
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return blank
	}
	return other
}

var ascii = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(r):
			t[r] = letter
		case unicode.IsNumber(r):
			t[r] = number
		case r == '\n' || r == '\r':
			t[r] = lineEnd
		case unicode.IsSpace(r):
			t[r] = blank
		}
	}
	return t
}()

// scanner returns a splitter for a function that returns the length of the first piece.
func scanner(next func(text string) int) splitter {
	return func(out []string, s string) []string {
		for len(s) > 0 {
			n := next(s)
			out = append(out, s[:n])
			s = s[n:]
		}
		return out
	}
}

// nextGPT2 returns the length of the first piece of s: that of the first matching alternative of GPT-2's pattern.
func nextGPT2(s string) int {
	if n := contraction(s, 0); n > 0 {
		return n
	}

	at := 0
	if s[0] == ' ' {
		at = 1
	}

	r, size := utf8.DecodeRuneInString(s[at:])
	if c := classOf(r); size > 0 && c != blank && c != lineEnd {
		return run(s, at+size, c)
	}
	return spaces(s, false)
}

// next does the same for the patterns of newer models. digits is the maximum length of a number.
func next(s string, digits int) int {
	r, size := utf8.DecodeRuneInString(s)
	c := classOf(r)
	if n := contraction(s, 0x20); n > 0 {
		return n
	}

	switch {
	case c == letter:
		return run(s, size, letter)
	case c != number && c != lineEnd:
		if r2, n2 := utf8.DecodeRuneInString(s[size:]); n2 > 0 && classOf(r2) == letter {
			return run(s, size+n2, letter)
		}
	}

	if c == number {
		n := size
		for k := 1; k < digits && n < len(s); k++ {
			r, size := utf8.DecodeRuneInString(s[n:])
			if classOf(r) != number {
				break
			}
			n += size
		}
		return n
	}

	at := 0
	if r == ' ' {
		at = 1
	}

	if n := run(s, at, other); n > at {
		return run(s, n, lineEnd)
	}

	return spaces(s, true)
}

// run extends a piece of n bytes over characters of a class and returns its new length.
func run(s string, n int, c class) int {
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if classOf(r) != c {
			break
		}
		n += size
	}
	return n
}

// spaces returns the length of the first piece of a text that begins with whitespace. If lines is true, it ends after
// the last line end. Otherwise or without a line end, it excludes the last whitespace character if other text follows.
func spaces(s string, lines bool) int {
	n, afterLine, last := 0, 0, 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		c := classOf(r)
		if c != blank && c != lineEnd {
			break
		}
		last = n
		n += size
		if c == lineEnd {
			afterLine = n
		}
	}

	switch {
	case lines && afterLine > 0:
		return afterLine
	case n < len(s) && last > 0:
		return last
	}

	return n
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the start, or 0. The bits of fold are set in
// letters before they are compared.
func contraction(s string, fold byte) int {
	at := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		return s[i] | fold
	}

	if s[0] != '\'' {
		return 0
	}

	switch at(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if at(2) == 'e' {
			return 3
		}
	case 'l':
		if at(2) == 'l' {
			return 3
		}
	}

	return 0
}
