package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/engine/stage"
)

// Words returns the text of a status.
func Words(s stage.Status) string {
	switch s {
	case stage.StatusGateFailed:
		return "gate failed"
	case stage.StatusPreflight:
		return "preflight failed"
	case stage.StatusNeeds:
		return "needs another runtime"
	case "":
		return "did not end"
	}

	return string(s)
}

// LevelOf is how good a status is.
func LevelOf(s stage.Status) string {
	switch s {
	case stage.StatusOK:
		return Good
	case stage.StatusPartial, stage.StatusNeeds, stage.StatusInterrupted, stage.StatusSkipped:
		return Warn
	}
	return Bad
}

// Number writes a measured value with four significant digits, NaN as a dash.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == 0:
		return "0"
	case a >= 1e6 || a < 1e-4:
		return strconv.FormatFloat(v, 'e', 3, 64)
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		digits := 3 - int(math.Floor(math.Log10(a)))
		return strconv.FormatFloat(v, 'f', max(digits, 0), 64)
	}
}

// Value writes a cell of a table: a number, a text, or a dash for nil.
func Value(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float64:
		return Number(v)
	}
	return fmt.Sprint(v)
}

// Percent writes a share. A share below 1 is never 100 %.
func Percent(share float64) string {
	text := fmt.Sprintf("%.1f %%", 100*share)
	switch {
	case math.IsNaN(share):
		return "-"
	case share < 1 && text == "100.0 %":
		return "99.9 %"
	}
	return strings.Replace(text, ".0 %", " %", 1)
}

// Duration formats seconds with suitable units.
func Duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case seconds < 10:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}

	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// List joins words, at most n of them.
func List(words []string, n int) string {
	if len(words) > n {
		return strings.Join(words[:n], ", ") + fmt.Sprintf(" and %d more", len(words)-n)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// addWord appends a word that is new and not empty.
func addWord(list []string, word string) []string {
	if word == "" || slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}
