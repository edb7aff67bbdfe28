package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/report/model"
)

// past is a state folder whose runs are written by the test.
type past struct {
	t     *testing.T
	store *checkpoint.Store
	now   time.Time
}

func newPast(t *testing.T) *past {
	p := &past{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"),
		checkpoint.Options{Now: func() time.Time { return p.now }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})

	p.store = store
	return p
}

// run writes the events of one run.
func (p *past) run(events ...map[string]any) *checkpoint.Run {
	p.t.Helper()
	p.now = p.now.Add(time.Hour)
	r, err := p.store.NewRun()
	if err != nil {
		p.t.Fatal(err)
	}

	var b strings.Builder
	for i, e := range events {
		e["@timestamp"] = p.now.Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano)
		line, err := json.Marshal(e)
		if err != nil {
			p.t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}

	if err := os.WriteFile(filepath.Join(r.Dir, "events.ndjson"), []byte(b.String()), 0o644); err != nil {
		p.t.Fatal(err)
	}

	p.now = p.now.Add(time.Duration(len(events)) * time.Second)
	return r
}

// record leaves a stage's table.
func (p *past) record(address, kind string, ds *stage.Dataset) {
	p.t.Helper()
	digest, err := p.store.PutRecord(ds.Table)
	if err != nil {
		p.t.Fatal(err)
	}

	info, err := json.Marshal(ds.Info)
	if err != nil {
		p.t.Fatal(err)
	}

	rec := &checkpoint.StageRecord{Address: address, Kind: kind, Key: "sha256:00", Status: "ok", Info: info,
		Outputs: checkpoint.Outputs{Table: digest}}
	if err := p.store.WriteStage(rec); err != nil {
		p.t.Fatal(err)
	}
}

func load(store *checkpoint.Store, rec *checkpoint.StageRecord) (*stage.Dataset, error) {
	d := &stage.Dataset{}
	if err := json.Unmarshal(rec.Info, &d.Info); err != nil {
		return nil, err
	}
	var err error
	d.Table, err = store.GetRecord(rec.Outputs.Table)
	return d, err
}

func ended(address, kind string, status stage.Status, after ...string) map[string]any {
	return map[string]any{"type": "stage_end", "stage": address, "kind": kind, "class": sampleClass(kind),
		"status": status, "after": after, "seconds": 1.5, "counts": stage.Counts{Rows: 30}}
}

func start() map[string]any {
	return map[string]any{"type": "run_start", "plan": "/somewhere/plans/p.hcl", "options": stage.Options{Limit: 5}}
}

func end(code int) map[string]any {
	return map[string]any{"type": "run_end", "exit_code": code, "seconds": 12.5}
}

func TestPastRunIsReadBack(t *testing.T) {
	p := newPast(t)
	gemm := sampleGemm(30, 1)

	for _, a := range [][2]string{{"collect.g", "collect"}, {"dedupe.g", "dedupe"}, {"gate.g", "gate"},
		{"collect.h", "collect"}, {"dedupe.h", "dedupe"}} {
		p.record(a[0], a[1], gemm)
	}

	statement := map[string]any{"type": statementEvent, "stage": "report.r",
		"statement": Statement{Title: "Stated", References: []string{"import.old"}}}
	p.record("import.old", "import", gemm)
	failed := ended("gate.h", "gate", stage.StatusGateFailed, "dedupe.h")
	failed["checks"] = []stage.CheckResult{{Name: "coverage", Result: "fail", Message: "too little"}}
	r := p.run(start(), ended("import.old", "import", stage.StatusOK), statement,
		ended("collect.g", "collect", stage.StatusOK, "grid.g"), ended("collect.h", "collect", stage.StatusPartial, "grid.h"),
		map[string]any{"type": "message", "@message": `not "type":"stage_end" at all`},
		ended("dedupe.g", "dedupe", stage.StatusOK, "collect.g"), ended("dedupe.h", "dedupe", stage.StatusOK, "collect.h"),
		ended("gate.g", "gate", stage.StatusOK, "dedupe.g"), failed,
		ended("export.h", "export", stage.StatusSkipped, "gate.h"), end(4))

	found, err := FindRun(p.store, "latest")
	if err != nil || found.ID != r.ID {
		t.Fatalf("latest: %v, %v", found, err)
	}

	past, err := ReadRun(*found)
	if err != nil {
		t.Fatal(err)
	}

	in, err := past.Input(p.store, load)
	if err != nil {
		t.Fatal(err)
	}

	if in.Title != "Stated" {
		t.Errorf("title %q", in.Title)
	}

	if len(in.Tables) == 2 && (in.Tables[1].Reference == nil ||
		in.Tables[1].ReferenceName != "import.old (TRTLLM 1.3.0rc20)") {
		t.Errorf("reference %q", in.Tables[1].ReferenceName)
	}

	if len(in.Tables) != 2 || in.Tables[0].Address != "dedupe.h" || in.Tables[1].Address != "gate.g" {
		t.Fatalf("tables %+v", in.Tables)
	}

	for _, tab := range in.Tables {
		if tab.Data == nil || tab.Stale != "" {
			t.Errorf("%s: %+v", tab.Address, tab)
		}
	}

	if !past.Ended || past.ExitCode != 4 || past.Seconds != 12.5 || in.Run.Partial != "limit" ||
		in.Run.Plan != "/somewhere/plans/p.hcl" {
		t.Errorf("run %+v", in.Run)
	}

	rep, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	if rep.Verdict.Word != "gate failed" || rep.Run.Plan != "plans/p.hcl" || rep.Tables[0].Gate == nil ||
		rep.Tables[0].Gate.Failed != 1 {
		t.Errorf("report %+v, gate %+v", rep.Verdict, rep.Tables[0].Gate)
	}
}

// TestReplacedDataIsNamed checks that the report of an old run names the run that replaced its data.
func TestReplacedDataIsNamed(t *testing.T) {
	p := newPast(t)
	gemm := sampleGemm(30, 1)

	p.record("collect.g", "collect", gemm)
	old := p.run(start(), ended("collect.g", "collect", stage.StatusOK), end(0))
	p.now = p.now.Add(time.Hour)
	p.record("collect.g", "collect", gemm)
	p.run(start(), end(0))

	found, err := FindRun(p.store, old.ID[:len(old.ID)-2])
	if err != nil || found.ID != old.ID {
		t.Fatalf("by its beginning: %v, %v", found, err)
	}

	past, err := ReadRun(*found)
	if err != nil {
		t.Fatal(err)
	}

	in, err := past.Input(p.store, load)
	if err != nil {
		t.Fatal(err)
	}

	if len(in.Tables) != 1 || !strings.Contains(in.Tables[0].Stale, "a later run") {
		t.Errorf("tables %+v", in.Tables)
	}
}

// TestStageOfKilledRunIsInterrupted checks that a stage that had begun is in the report with its last
// progress.
func TestStageOfKilledRunIsInterrupted(t *testing.T) {
	p := newPast(t)
	begun := map[string]any{"type": "stage_start", "stage": "collect.g", "kind": "collect"}
	progress := map[string]any{"type": "stage_progress", "stage": "collect.g", "done": 33, "total": 100}
	past, err := ReadRun(*p.run(start(), begun, progress))
	if err != nil {
		t.Fatal(err)
	}

	if past.Seconds != 2 {
		t.Errorf("the run took %g s, its last sign of life came after 2", past.Seconds)
	}

	in, err := past.Input(p.store, load)
	if err != nil {
		t.Fatal(err)
	}

	rep, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	if len(rep.Stages) != 1 || !strings.Contains(rep.Stages[0].Message, "33 of 100 cases") {
		t.Errorf("stages %+v", rep.Stages)
	}

	if len(rep.Risks) != 2 {
		t.Errorf("risks %+v", rep.Risks)
	}
}

// TestKilledRunIsUnfinished reads events without an end, whose last line was cut short.
func TestKilledRunIsUnfinished(t *testing.T) {
	p := newPast(t)
	r := p.run(start(), ended("collect.g", "collect", stage.StatusOK))
	path := filepath.Join(r.Dir, "events.ndjson")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := f.WriteString(`{"type":"stage_end","stage":"dedu`); err != nil {
		t.Fatal(err)
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	past, err := ReadRun(*r)
	if err != nil || past.Ended || len(past.Stages) != 1 {
		t.Errorf("%+v, %v", past, err)
	}

	in, err := past.Input(p.store, load)
	if err != nil {
		t.Fatal(err)
	}

	if rep, err := model.Build(in); err != nil || rep.Verdict.Word != "unfinished" || rep.Run.ExitCode != nil {
		t.Errorf("report %+v, %v", rep.Verdict, err)
	}

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, append([]byte(`{"type":"run_start" broken`+"\n"), data...), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := ReadRun(*r); err == nil || !strings.Contains(err.Error(), "events.ndjson:1") {
		t.Errorf("a damaged line in the middle: %v", err)
	}
}

func TestRunIsFoundByItsBeginning(t *testing.T) {
	p := newPast(t)
	if _, err := FindRun(p.store, ""); err == nil || !strings.Contains(err.Error(), "has no run") {
		t.Errorf("an empty state folder: %v", err)
	}

	p.run(start())
	p.run(start())

	if _, err := FindRun(p.store, "2026"); err == nil || !strings.Contains(err.Error(), "begins 2 runs") {
		t.Errorf("a beginning of two: %v", err)
	}

	if _, err := FindRun(p.store, "nope"); err == nil {
		t.Error("a run that there is not was found")
	}

	if _, err := ReadRun(checkpoint.Run{ID: "x", Dir: t.TempDir()}); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("without events: %v", err)
	}
}

// FuzzReadRun checks that a damaged file of events is an error or a run, and no panic.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"type":"run_start","plan":"p"}` + "\n" +
		`{"type":"stage_end","stage":"collect.g","kind":"collect","counts":{}}` + "\n"))
	f.Add([]byte(`{"type":"stage_end","waterfall":{"filters":[null]},"after":[""]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "events.ndjson"), data, 0o644); err != nil {
			t.Fatal(err)
		}

		past, err := ReadRun(checkpoint.Run{ID: "r", Dir: dir})
		if err != nil {
			return
		}

		store, err := checkpoint.Open(filepath.Join(dir, "none"), checkpoint.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()

		in, err := past.Input(store, load)
		if err != nil {
			return
		}

		if _, err := model.Build(in); err != nil {
			t.Logf("no report: %v", err)
		}
	})
}
