// Package model contains the facts of a run, from its stages and tables, without their
// presentation. HTML, Markdown and JSON are written from the same value.
package model

import (
	"aicplan/engine/stage"
	"aicplan/sink/diff"
	"aicplan/stages/gate/results"
)

// Report contains all facts of a run.
type Report struct {
	Title   string  `json:"title"`
	Run     Run     `json:"run"`
	Verdict Verdict `json:"verdict"`
	// Glance are sentences that sum the release up, each with its figures.
	Glance  []string        `json:"glance"`
	Figures []Figure        `json:"figures"`
	Risks   []Risk          `json:"risks"`
	Nodes   []Node          `json:"nodes"`
	Tables  []*Table        `json:"tables"`
	Gates   []results.Group `json:"gates"`
	// Predictions are what gates compared with predictions.
	Predictions []Comparison   `json:"predictions,omitempty"`
	Failures    []FailureGroup `json:"failures"`
	Skips       []Skip         `json:"skips"`
	Waterfalls  []Waterfall    `json:"waterfalls"`
	Files       []File         `json:"files"`
	Stages      []Stage        `json:"stages"`
	// Watched is drawn only: the series are attachments of the cases.
	Watched []Watched `json:"-"`
	// Requests are drawn only, too.
	Requests []Requests `json:"-"`
}

// Run contains the facts of the run as a whole.
type Run struct {
	ID       string  `json:"id,omitempty"`
	Plan     string  `json:"plan,omitempty"`
	Started  string  `json:"started,omitempty"` // RFC 3339
	Seconds  float64 `json:"seconds,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"` // nil before the run has ended
	// Unfinished is true for a run that was found without an end: it goes on, or
	// was killed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Idle is true for a run that had nothing to do. IdleSince are the later runs that
	// had nothing to do, newest first.
	Idle      bool     `json:"idle,omitempty"`
	IdleSince []string `json:"idle_since,omitempty"`
	Partial   string   `json:"partial,omitempty"` // smoke or limit
}

// Verdict is the report in one word.
type Verdict struct {
	// Level is good, warn or bad.
	Level string `json:"level"`
	Word  string `json:"word"`
	Text  string `json:"text"`
}

// The levels of verdicts, figures, risks and items.
const (
	Good = "good"
	Warn = "warn"
	Bad  = "bad"
)

// Figure is a number worth a large font.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
	Level string `json:"level,omitempty"`
}

// Risk is a fact that limits how far the data can be relied on.
type Risk struct {
	Level string `json:"level"` // bad or warn
	Text  string `json:"text"`
}

// Node is one environment that measured.
type Node struct {
	Host      string   `json:"host,omitempty"`
	Device    string   `json:"device"`
	Devices   []string `json:"device_uuids,omitempty"`
	Framework string   `json:"framework"`
	Version   string   `json:"version"`
	Runtime   string   `json:"runtime,omitempty"`
	Image     string   `json:"image,omitempty"`
	Digest    string   `json:"image_digest,omitempty"`
	System    string   `json:"system,omitempty"`
	Facts     []Fact   `json:"facts,omitempty"` // driver, libraries, by name
	Tables    []string `json:"tables"`
	// The number of rows that name the node, and the median of their SM clocks.
	Rows  int      `json:"rows,omitempty"`
	Clock *float64 `json:"sm_clock_mhz,omitempty"`

	clocks []float64
}

// Fact is a named value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Table is one dataset of the report.
type Table struct {
	Address   string `json:"address"`
	Name      string `json:"name"` // the perf table, else the op
	Op        string `json:"op,omitempty"`
	Framework string `json:"framework,omitempty"`
	Version   string `json:"version,omitempty"`
	Device    string `json:"device,omitempty"`
	System    string `json:"system,omitempty"`
	Runtime   string `json:"runtime,omitempty"`
	Imported  bool   `json:"imported,omitempty"`
	Partial   string `json:"partial,omitempty"`
	Unit      string `json:"unit"`
	Metric    string `json:"metric"` // what the rows are compared by
	Better    string `json:"better"` // lower or higher

	Rows    int `json:"rows"`
	Planned int `json:"planned"`
	Covered int `json:"covered"` // planned cases with a row
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`

	Latency   *Spread        `json:"latency,omitempty"` // of Metric
	Cells     *results.Table `json:"cells,omitempty"`   // of loads and experiments with few rows
	Noise     *Spread        `json:"noise,omitempty"`
	Clock     *Spread        `json:"clock_mhz,omitempty"`
	Light     *Spread        `json:"speed_of_light,omitempty"`
	Throttled float64        `json:"throttled,omitempty"` // share
	Rates     []Rate         `json:"rates,omitempty"`
	// Worst are the rows to look at first.
	Worst *results.Table `json:"worst,omitempty"`

	Gate      *Gate            `json:"gate,omitempty"`
	Reference *diff.Comparison `json:"reference,omitempty"`

	Data   *stage.Dataset  `json:"-"`
	Facets *Facets         `json:"-"`
	Ratio  []float64       `json:"-"` // to the reference, by row; nil without one
	Cover  map[string]bool `json:"-"` // case ids with a row
}

// Spread sums a column up.
type Spread struct {
	Min float64 `json:"min"`
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

// Gate is how a table fared in the gates that judged it.
type Gate struct {
	Address string `json:"address"`
	results.Counts

	addresses []string // of the gates
}

// Skip is a set of configurations that were left out, with the reason.
type Skip struct {
	Where   string `json:"where"`
	Kind    string `json:"kind"` // filter, or a class of the ledger
	Name    string `json:"name,omitempty"`
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	Example string `json:"example,omitempty"`
	Meaning string `json:"meaning"` // whose limit it is
}

// Waterfall is how a grid's declared combinations became cases.
type Waterfall struct {
	Grid string `json:"grid"`
	*stage.Waterfall
}

// File is a file that the run wrote.
type File struct {
	Path   string `json:"path"`
	Rows   int    `json:"rows,omitempty"`
	Digest string `json:"digest"`
	Stage  string `json:"stage"`
}

// Stage is how one stage ended.
type Stage struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	class   stage.Class
	Status  stage.Status `json:"status"`
	Reused  bool         `json:"reused,omitempty"`
	Seconds float64      `json:"seconds"`
	Message string       `json:"message,omitempty"`
	Counts  stage.Counts `json:"counts"`
}

// Filtered counts the combinations that filters dropped.
func (w Waterfall) Filtered() int64 {
	var n int64
	for _, f := range w.Filters {
		n += f.Dropped
	}
	return n
}
