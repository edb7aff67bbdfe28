package report

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

func input(t *testing.T) model.Input {
	t.Helper()
	in := sampleInput(t, 400)
	return in
}

func build(t testing.TB, in model.Input) *model.Report {
	t.Helper()
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCountsAddUpToTheTable compares the counts of a report with its tables.
func TestCountsAddUpToTheTable(t *testing.T) {
	in := input(t)
	r := build(t, in)
	a := r.Tables[1]

	rows, lost := int(in.Tables[1].Data.Table.NumRows()), int(in.Tables[1].Data.Ledger.NumRows())
	if a.Rows != rows || a.Planned != rows+lost || a.Covered != rows || a.Failed+a.Skipped != lost ||
		a.Failed == 0 || a.Skipped == 0 {
		t.Errorf("attention: %+v", a)
	}

	failed := 0
	for _, g := range r.Failures {
		failed += g.Count
	}

	if failed != a.Failed {
		t.Errorf("%d failures in groups, want %d", failed, a.Failed)
	}

	var filtered, tripped int64
	for _, s := range r.Skips {
		switch s.Kind {
		case "filter":
			filtered += s.Count
		case "tripped":
			tripped += s.Count
		}
	}

	if filtered != r.Waterfalls[0].Filtered() || tripped != int64(a.Skipped) {
		t.Errorf("left out: %d filtered, %d tripped; want %d and %d", filtered, tripped,
			r.Waterfalls[0].Filtered(), a.Skipped)
	}

	if a.Gate == nil || a.Gate.Address != "gate.attention" || a.Gate.Failed != 1 || a.Gate.Skipped != 1 {
		t.Errorf("the gate behind the dedupe: %+v", a.Gate)
	}

	if r.Tables[2].Gate != nil || !r.Tables[2].Imported {
		t.Errorf("the imported table: %+v", r.Tables[2])
	}
}

// TestReference compares ratios with those of the rows.
func TestReference(t *testing.T) {
	in := input(t)
	r := build(t, in)
	g := r.Tables[0]
	if g.Reference == nil || g.Reference.Common != g.Rows {
		t.Fatalf("reference: %+v", g.Reference)
	}

	there, err := table.Float64s(in.Tables[0].Reference.Table, "latency")
	if err != nil {
		t.Fatal(err)
	}

	for i, ratio := range g.Ratio {
		if want := g.Facets.Latency[i] / there.Values[i]; !(math.Abs(ratio-want) <= 1e-12) {
			t.Fatalf("ratio of row %d is %v, want %v", i, ratio, want)
		}
	}

	if g.Light == nil || !(g.Light.Max <= 1) || !(g.Light.P50 >= 0.2) {
		t.Errorf("speed of light %+v", g.Light)
	}
}

// scaled returns the latencies of rec times a factor.
func scaled(t *testing.T, rec arrow.Record, by float64) arrow.Array {
	t.Helper()
	col, err := table.Float64s(rec, "latency")
	if err != nil {
		t.Fatal(err)
	}

	out := slices.Clone(col.Values)
	for i := range out {
		out[i] *= by
	}
	return table.Floats(out, nil)
}

func TestVerdicts(t *testing.T) {
	ok := &stage.Outcome{Status: stage.StatusOK,
		Checks: []stage.CheckResult{{Name: "c", Severity: "fail", Result: "pass"}}}

	// Checks that only warn can stop nothing, and a preflight judges no data.
	warns := func(result string) []stage.Finished {
		return []stage.Finished{{Address: "gate.g", Kind: "gate", Class: sampleClass("gate"),
			Outcome: &stage.Outcome{Status: stage.StatusOK,
				Checks: []stage.CheckResult{{Name: "c", Severity: "warn", Result: result}}}}}
	}

	node := []stage.Finished{{Address: "preflight.n", Kind: "preflight", Class: sampleClass("preflight"), Outcome: ok}}
	gemm := sampleGemm(30, 1)

	tables := []model.TableInput{{Address: "gate.g", Data: gemm}}
	us := *gemm
	us.Table = table.WithColumn(gemm.Table, "latency", scaled(t, gemm.Table, 1000))
	partial := *gemm
	partial.Info.Partial = "limit"

	with := func(s stage.Status) []stage.Finished {
		return []stage.Finished{{Address: "gate.g", Kind: "gate", Class: sampleClass("gate"), Outcome: ok},
			{Address: "x.y", Kind: "collect", Class: sampleClass("collect"), Outcome: &stage.Outcome{Status: s}}}
	}
	for name, c := range map[string]struct {
		in          model.Input
		level, word string
	}{
		"good": {model.Input{Finished: with(stage.StatusOK), Tables: tables}, model.Good, "passed"},
		"another unit": {model.Input{Finished: with(stage.StatusOK),
			Tables: []model.TableInput{{Address: "gate.g", Data: &us,
				Reference: gemm}}}, model.Bad, "differs from the reference"},
		"failed":      {model.Input{Finished: with(stage.StatusFailed), Tables: tables}, model.Bad, "failed"},
		"preflight":   {model.Input{Finished: with(stage.StatusPreflight), Tables: tables}, model.Bad, "preflight failed"},
		"gate":        {model.Input{Finished: with(stage.StatusGateFailed), Tables: tables}, model.Bad, "gate failed"},
		"interrupted": {model.Input{Finished: with(stage.StatusInterrupted), Tables: tables}, model.Warn, "interrupted"},
		"elsewhere":   {model.Input{Finished: with(stage.StatusNeeds), Tables: tables}, model.Warn, "partial"},
		"partial": {model.Input{Finished: with(stage.StatusOK),
			Tables: []model.TableInput{{Address: "gate.g", Data: &partial}}}, model.Warn, "partial"},
		"smoke": {model.Input{Finished: with(stage.StatusOK), Tables: tables, Run: model.Run{Partial: "smoke"}},
			model.Warn, "sample"},
		"nothing":    {model.Input{Finished: with(stage.StatusOK)}, model.Warn, "no data"},
		"no gate":    {model.Input{Tables: tables}, model.Warn, "not judged"},
		"node only":  {model.Input{Tables: tables, Finished: node}, model.Warn, "not judged"},
		"only warns": {model.Input{Tables: tables, Finished: warns("pass")}, model.Warn, "passed"},
		"warned":     {model.Input{Tables: tables, Finished: warns("warn")}, model.Warn, "passed, with warnings"},
		"both": {model.Input{Tables: tables,
			Finished: append(with(stage.StatusOK),
				stage.Finished{Address: "gate.h", Kind: "gate", Class: sampleClass("gate"),
					Outcome: warns("warn")[0].Outcome})}, model.Warn, "passed, with warnings"},
	} {
		r := build(t, c.in)
		if r.Verdict.Level != c.level || r.Verdict.Word != c.word {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
		if nothing := strings.Contains(strings.ToLower(r.Verdict.Text),
			"nothing can stop this data"); nothing != slices.Contains([]string{"no gate", "node only", "only warns",
			"warned"}, name) {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
	}
}

// TestChecksThatCouldNotJudge checks that each is listed once, with its gate.
func TestChecksThatCouldNotJudge(t *testing.T) {
	gemm := sampleGemm(30, 1)

	gate := func(address string, skipped ...string) stage.Finished {
		checks := []stage.CheckResult{{Name: "positive", Severity: "fail", Result: "pass"}}
		for _, name := range skipped {
			checks = append(checks, stage.CheckResult{Name: name, Severity: "warn", Result: "skip",
				Message: "there are no rows to judge"})
		}
		return stage.Finished{Address: address, Kind: "gate", Class: sampleClass("gate"),
			Outcome: &stage.Outcome{Status: stage.StatusOK, Checks: checks}, After: []string{"collect.g"}}
	}

	r := build(t, model.Input{
		Finished: []stage.Finished{
			{Address: "collect.g", Kind: "collect", Class: sampleClass("collect"),
				Outcome: &stage.Outcome{Status: stage.StatusOK, Data: gemm}},
			gate("gate.a", "noise"), gate("gate.b", "noise", "physics"), gate("gate.c"),
		},
		Tables: []model.TableInput{{Address: "collect.g", Data: gemm}, {Address: "gate.b", Data: gemm}},
	})

	var got []string
	for _, x := range r.Risks {
		if strings.Contains(x.Text, "could not be judged") {
			got = append(got, x.Text)
		}
	}

	want := []string{"check noise of gate.a could not be judged: there are no rows to judge",
		"2 checks of gate.b could not be judged: noise and physics"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWithoutData checks that a report names a stage that left no data.
func TestWithoutData(t *testing.T) {
	r := build(t, model.Input{
		Finished: []stage.Finished{{Address: "collect.g", Kind: "collect", Class: sampleClass("collect"),
			Outcome: &stage.Outcome{Status: stage.StatusFailed, Message: "no worker came up"}}},
		Tables: []model.TableInput{{Address: "gate.g"}},
	})
	if r.Tables[0].Partial == "" || r.Verdict.Level != model.Bad {
		t.Errorf("%+v %+v", r.Tables[0], r.Verdict)
	}

	if len(r.Risks) == 0 || !strings.Contains(r.Risks[0].Text, "no worker came up") {
		t.Errorf("risks: %+v", r.Risks)
	}
}

func TestFiles(t *testing.T) {
	o := func(paths ...string) *stage.Outcome {
		out := &stage.Outcome{Status: stage.StatusOK}
		for _, p := range paths {
			out.Artifacts = append(out.Artifacts, stage.Artifact{Path: p, Rows: 1})
		}
		return out
	}

	r := build(t, model.Input{Finished: []stage.Finished{
		{Address: "export.a", Kind: "export", Class: sampleClass("export"), Outcome: o("/home/user/run/out/a/gemm.txt")},
		{Address: "export.b", Kind: "export", Class: sampleClass("export"), Outcome: o("/home/user/run/out/b.txt")},
	}})
	if r.Files[0].Path != "out/a/gemm.txt" || r.Files[1].Path != "out/b.txt" {
		t.Errorf("files: %+v", r.Files)
	}
}

// TestUnusableValuesInJSON writes a report on rows without a usable latency, or with an infinite percentile.
func TestUnusableValuesInJSON(t *testing.T) {
	in := input(t)
	data := in.Tables[0].Data
	latency := make([]float64, data.Table.NumRows())
	noise, high := slices.Clone(latency), slices.Clone(latency)
	for i := range latency {
		latency[i], noise[i], high[i] = 1, float64(i), math.Inf(1)
	}

	last := len(latency) - 1
	latency[last], latency[last-1] = math.NaN(), math.Inf(1)
	for name, values := range map[string][]float64{"latency": latency, "rel_stdev": noise, "p90": high} {
		data.Table = table.WithColumn(data.Table, name, table.Floats(values, nil))
	}

	in.Tables[0].Reference = nil
	if err := Write(io.Discard, "json", build(t, in)); err != nil {
		t.Error(err)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{model.Number(0.0123456), "0.01235"}, {model.Number(math.NaN()), "-"},
		{model.Number(12345), "12345"}, {model.Number(1e-7), "1.000e-07"}, {model.Percent(0.9999), "99.9 %"},
		{model.Percent(1), "100 %"},
		{model.Duration(3725), "1 h 02 min"}, {model.Duration(75), "1 min 15 s"},
		{model.List([]string{"a", "b", "c", "d"}, 2), "a, b and 2 more"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestTablesOfOneKind: two tables of one op have names of their own, and a table that
// several gates judge has the checks of all of them.
func TestTablesOfOneKind(t *testing.T) {
	t.Parallel()
	gemm := sampleGemm(30, 1)

	gate := func(address, reads, severity, result string, status stage.Status) stage.Finished {
		return stage.Finished{Address: address, Kind: "gate", Class: sampleClass("gate"), After: []string{reads},
			Outcome: &stage.Outcome{
				Status: status, Checks: []stage.CheckResult{{Name: "c", Severity: severity, Result: result}}}}
	}

	r, err := model.Build(model.Input{
		Tables: []model.TableInput{{Address: "collect.a", Data: gemm}, {Address: "collect.b", Data: gemm}},
		Finished: []stage.Finished{
			gate("gate.hard", "collect.a", "fail", "fail", stage.StatusGateFailed),
			gate("gate.mild", "collect.a", "warn", "warn", stage.StatusOK),
			gate("gate.other", "collect.b", "fail", "pass", stage.StatusOK),
			{Address: "gate.late", Kind: "gate", Class: sampleClass("gate"), After: []string{"collect.b"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	a, b := r.Tables[0], r.Tables[1]
	if a.Name != "gemm_perf of collect.a" || b.Name != "gemm_perf of collect.b" {
		t.Errorf("names %q, %q", a.Name, b.Name)
	}

	if a.Gate == nil || a.Gate.Failed != 1 || a.Gate.Warned != 1 || a.Gate.Address != "gate.hard, gate.mild" {
		t.Errorf("gates of a: %+v", a.Gate)
	}

	if b.Gate == nil || b.Gate.Passed != 1 || b.Gate.Address != "gate.other" {
		t.Errorf("gates of b: %+v", b.Gate)
	}
}
