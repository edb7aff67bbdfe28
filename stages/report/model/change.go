package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"aicplan/sink/phrase"
	"aicplan/sink/stats"
)

// Earlier is what a case came to at the try before its row.
type Earlier struct {
	Value float64 // NaN where there was none
	Noise float64 // standard deviation over mean; NaN where it is not known
	At    int64   // UnixNano; the smallest where it is not known
}

// Change is how the rows differ from the tries before them.
type Change struct {
	Rows int `json:"rows"` // that had a try before
	// Median of now over then, and the interval that has it with 95 % confidence;
	// no interval for fewer rows than that takes.
	Median   float64     `json:"median"`
	Interval *[2]float64 `json:"interval,omitempty"`
	// Slower and Faster count rows that differ by more than their own noise and 2 %.
	Slower int         `json:"slower"`
	Faster int         `json:"faster"`
	Since  string      `json:"since,omitempty"` // the newest of the tries before
	Run    string      `json:"run,omitempty"`   // the run that had left them, where one was chosen
	Worst  []ChangeRow `json:"worst,omitempty"`
}

// ChangeRow is one row that differs much.
type ChangeRow struct {
	Case  string  `json:"case"`
	Then  float64 `json:"then"`
	Now   float64 `json:"now"`
	Ratio float64 `json:"ratio"`
}

// leastChange is by how much a row must differ at least to count as changed.
const leastChange = 0.02

// changed holds the rows against the tries before them.
func (t *Table) changed(before []Earlier, run string) {
	if t.Data == nil || t.Data.Table == nil || len(before) != len(t.Facets.Latency) {
		return
	}
	c := &Change{Run: run}
	var ratios []float64
	newest := int64(math.MinInt64)
	worst := worstChanges{}
	for i, e := range before {
		now := t.Facets.Latency[i]
		if !(e.Value > 0) || !(now > 0) {
			continue
		}
		ratio := now / e.Value
		ratios = append(ratios, ratio)
		newest = max(newest, e.At)
		noise := 0.0
		if t.Facets.Noise != nil && !math.IsNaN(t.Facets.Noise[i]) {
			noise = t.Facets.Noise[i]
		}
		if !math.IsNaN(e.Noise) {
			noise = math.Hypot(noise, e.Noise)
		}
		if math.Abs(ratio-1) <= max(leastChange, 2*noise) {
			continue
		}
		if ratio > 1 {
			c.Slower++
		} else {
			c.Faster++
		}
		worst.add(i, math.Abs(math.Log(ratio)))
	}
	if len(ratios) == 0 {
		return
	}
	if newest > math.MinInt64 {
		c.Since = time.Unix(0, newest).UTC().Format(time.RFC3339Nano)
	}
	for _, w := range worst {
		e, now := before[w.row], t.Facets.Latency[w.row]
		c.Worst = append(c.Worst, ChangeRow{Case: t.worstRow("", w.row).Case, Then: e.Value, Now: now, Ratio: now / e.Value})
	}
	slices.Sort(ratios)
	c.Rows, c.Median = len(ratios), stats.Rank(ratios, 0.5)
	c.Interval = MedianInterval(ratios)
	t.Change = c
}

// worstChanges are the rows that changed most, the most first, of equal ones the
// one that comes first in the table.
type worstChanges []struct {
	row  int
	size float64
}

func (w *worstChanges) add(row int, size float64) {
	at := len(*w)
	for at > 0 && (*w)[at-1].size < size {
		at--
	}
	if at == mostWorst {
		return
	}
	*w = slices.Insert(*w, at, struct {
		row  int
		size float64
	}{row, size})
	*w = (*w)[:min(len(*w), mostWorst)]
}

// MedianInterval is the interval between two of the ascending values that has the
// median of what they are a sample of with 95 % confidence, by the binomial
// distribution of ranks, whatever the distribution of the values; nil for fewer
// than six of them, of which no two are so far apart.
func MedianInterval(sorted []float64) *[2]float64 {
	n := len(sorted)
	if n < 6 {
		return nil
	}
	// The largest rank below which lie no more than 2.5 % of the binomial
	// distribution.
	below, logP := 0.0, -float64(n)*math.Ln2
	rank := 0
	for k := 0; k < n; k++ {
		if below += math.Exp(logP); below > 0.025 {
			rank = k
			break
		}
		logP += math.Log(float64(n-k)) - math.Log(float64(k+1))
	}
	if rank == 0 {
		return nil
	}
	return &[2]float64{sorted[rank-1], sorted[n-rank]}
}

// Text says the change in a sentence.
func (c *Change) Text() string {
	when := c.Since
	if at, err := time.Parse(time.RFC3339Nano, when); err == nil {
		when = at.UTC().Format("2006-01-02 15:04 UTC")
	}
	text := fmt.Sprintf("%s measured before, the last time %s: the median of now over then is %.3f", rowsHad(c.Rows), when, c.Median)
	if c.Run != "" {
		text = fmt.Sprintf("%s measured again after run %s: the median of now over then is %.3f", rowsHad(c.Rows), c.Run, c.Median)
	}
	if c.Interval != nil {
		text += fmt.Sprintf(" (95 %% confidence: %.3f to %.3f)", c.Interval[0], c.Interval[1])
	}
	var parts []string
	if c.Slower > 0 {
		parts = append(parts, fmt.Sprintf("%s slower", phrase.Count(int64(c.Slower))))
	}
	if c.Faster > 0 {
		parts = append(parts, fmt.Sprintf("%s faster", phrase.Count(int64(c.Faster))))
	}
	if len(parts) == 0 {
		return text + "; no row differs by more than its noise and 2 %."
	}
	return text + "; by more than their noise and 2 %, " + strings.Join(parts, " and ") + "."
}

// Title heads the change.
func (c *Change) Title() string {
	if c.Run != "" {
		return "Since run " + c.Run
	}
	return "Since the last time"
}

func rowsHad(n int) string {
	if n == 1 {
		return "1 row was"
	}
	return phrase.Count(int64(n)) + " rows were"
}
