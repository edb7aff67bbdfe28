package textutil

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Some writes how many there are of something: "1 row", "2000 rows".
func Some[N int | int64](n N, what string) string {
	return strconv.FormatInt(int64(n), 10) + " " + plural(n, what)
}

// Counted is Some with groups of digits: "2,000 rows".
func Counted[N int | int64](n N, what string) string {
	return Count(n) + " " + plural(n, what)
}

func plural[N int | int64](n N, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// Count writes a number with commas between groups of three digits.
func Count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Duration formats seconds in the two largest units. Durations below a second are "1s".
func Duration(seconds float64) string {
	d := time.Duration(math.Round(seconds)) * time.Second
	switch {
	case seconds < 1:
		return "1s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// WriteJSON writes v as indented JSON without escapes for HTML.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
