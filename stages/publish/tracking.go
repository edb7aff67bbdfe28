package publish

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/phrase"
	"aicplan/stages/report/failures"
	"aicplan/stages/report/roles"
)

// tracked is one line of the tracking table: an op and how far it is.
type tracked struct {
	op, collector, file string
	smoke, full         string
	rows                int
	duplicates          string
	consumer            string
	notes               string
}

// progress is how far all ops of a plan are, by the records of a state folder.
type progress struct {
	ops     []tracked
	ledgers []failures.StageLedger
	info    stage.Info // of the first op that has rows
	rows    int
}

// keyed is what the canonical inputs of a record say about how it measured.
type keyed struct {
	Config struct {
		Bind struct {
			Module string `json:"module"`
			Run    string `json:"run"`
		} `json:"bind"`
		Runtime struct {
			Kind string `json:"kind"`
		} `json:"runtime"`
	} `json:"config"`
}

// progressOf reads the records of one plan: all of them, also of stages beside
// the one that publishes, since the text is about the whole campaign.
func progressOf(store *checkpoint.Store, plan string, waiting []string, answers consumer) (*progress, error) {
	p := &progress{}
	all, err := store.Stages()
	if err != nil {
		return nil, err
	}
	own := map[string]*checkpoint.StageRecord{}
	for _, r := range all {
		if r.Plan == plan {
			own[r.Address] = r
		}
	}
	behind := map[string][]*checkpoint.StageRecord{} // gates and exports, by the collect whose rows they got
	for _, r := range all {
		if own[r.Address] == nil || r.Replacing != "" || !roles.Of(r.Kind).Judges && r.Kind != "export" {
			continue
		}
		for from := range collects(own, r, map[string]bool{}) {
			behind[from] = append(behind[from], r)
		}
	}
	for _, r := range all {
		if own[r.Address] == nil || !roles.Of(r.Kind).Measures {
			continue
		}
		if err := p.add(store, r, behind[r.Address], answers); err != nil {
			return nil, err
		}
	}
	for _, op := range waiting {
		p.ops = append(p.ops, tracked{op: op, smoke: "not run", full: "not run"})
	}
	slices.SortStableFunc(p.ops, func(a, b tracked) int { return strings.Compare(a.op, b.op) })
	return p, nil
}

// collects are the measuring stages that a stage's data comes from, by what the
// configs in the records refer to.
func collects(own map[string]*checkpoint.StageRecord, r *checkpoint.StageRecord, seen map[string]bool) map[string]bool {
	out := map[string]bool{}
	if seen[r.Address] {
		return out
	}
	seen[r.Address] = true
	if roles.Of(r.Kind).Measures {
		return map[string]bool{r.Address: true}
	}
	var inputs struct {
		Config any `json:"config"`
	}
	if json.Unmarshal(r.Inputs, &inputs) != nil {
		return out // a record of another kind of canonical text refers to nothing
	}
	for _, addr := range references(inputs.Config) {
		if before := own[addr]; before != nil {
			maps.Copy(out, collects(own, before, seen))
		}
	}
	return out
}

// references lists the addresses that a config names: {"stage": ADDRESS}.
func references(v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		if addr, ok := v["stage"].(string); ok {
			out = append(out, addr)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, references(v[k])...)
		}
	case []any:
		for _, e := range v {
			out = append(out, references(e)...)
		}
	}
	return out
}

// stem is the table that a perf file holds, by its name.
func stem(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return name
}

func decode(r *checkpoint.StageRecord, what string, raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the record of %s: %s: %w", r.Address, what, err)
	}
	return nil
}

func (p *progress) add(store *checkpoint.Store, r *checkpoint.StageRecord, behind []*checkpoint.StageRecord, answers consumer) error {
	var info stage.Info
	var counts stage.Counts
	var how keyed
	if err := cmp.Or(decode(r, "info", r.Info, &info), decode(r, "counts", r.Counts, &counts), decode(r, "inputs", r.Inputs, &how)); err != nil {
		return err
	}
	t := tracked{op: cmp.Or(info.Op, r.Address), rows: counts.Rows, collector: how.Config.Runtime.Kind}
	if m := how.Config.Bind.Module; m != "" {
		t.collector = path.Base(path.Dir(strings.ReplaceAll(m, ".", "/"))) + "/" + path.Base(strings.ReplaceAll(m, ".", "/")) + ".py"
	}
	if err := t.follow(behind, answers); err != nil {
		return err
	}
	t.smoke, t.full = states(r, info, counts)
	if info.Version != "" && p.info.Version == "" {
		p.info = info
	}
	p.rows += counts.Rows
	if r.Outputs.Ledger != "" {
		ledger, err := store.GetRecord(r.Outputs.Ledger)
		if err != nil {
			return fmt.Errorf("the ledger of %s: %w", r.Address, err)
		}
		src := failures.StageLedger{Address: r.Address, Op: t.op, Framework: info.Framework, Version: info.Version, Ledger: ledger}
		p.ledgers = append(p.ledgers, src)
		if t.notes, err = lost(src); err != nil {
			return err
		}
	}
	p.ops = append(p.ops, t)
	return nil
}

// follow says what became of an op's rows: the gate's word about duplicates, the
// files, and what their reader said.
func (t *tracked) follow(behind []*checkpoint.StageRecord, answers consumer) error {
	t.file, t.duplicates, t.consumer = "not exported", "not judged", "not run"
	var files []string
	for _, r := range behind {
		var checks []stage.CheckResult
		var list []stage.Artifact
		if err := cmp.Or(decode(r, "checks", r.Checks, &checks), decode(r, "artifacts", r.Artifacts, &list)); err != nil {
			return err
		}
		for _, c := range checks {
			if c.Name == "duplicates" && t.duplicates == "not judged" {
				t.duplicates = map[bool]string{true: "none", false: c.Result + ": " + c.Message}[c.Result == "pass"]
			}
		}
		for _, a := range list {
			if r.Kind == "export" && a.Rows > 0 {
				files = append(files, filepath.Base(a.Path))
				t.consumer = answers.of(stem(a.Path))
			}
		}
	}
	if len(files) > 0 {
		t.file = strings.Join(slices.Compact(slices.Sorted(slices.Values(files))), ", ")
	}
	return nil
}

// states says how the smoke run and the full run of an op stand. Data of a run
// that left cases out is never called complete.
func states(r *checkpoint.StageRecord, info stage.Info, n stage.Counts) (smoke, full string) {
	got := n.Measured + n.Reused
	switch {
	case got == 0:
		smoke = "failed"
	case r.Sample && n.Failed > 0:
		smoke = fmt.Sprintf("%d failed", n.Failed)
	default:
		smoke = "passed"
	}
	switch status := stage.Status(r.Status); {
	case r.Replacing != "":
		full = "measured again"
	case r.Sample:
		full = "not yet"
	case status == stage.StatusOK && info.Partial == "":
		full = "complete"
	case info.Partial != "" || status == stage.StatusPartial || status == stage.StatusInterrupted:
		full = "**partial**: " + share(got, n.Planned)
		if info.Partial != "" {
			full += ", " + info.Partial
		}
	default:
		full = strings.ReplaceAll(r.Status, "_", " ")
	}
	return smoke, full
}

func share(got, of int) string {
	return fmt.Sprintf("%s of %s", phrase.Count(int64(got)), phrase.Count(int64(of)))
}

// lost counts the cases without a row by class.
func lost(src failures.StageLedger) (string, error) {
	groups, err := failures.Groups([]failures.StageLedger{src}, failures.Options{By: []string{"class"}, Status: failures.All})
	if err != nil {
		return "", err
	}
	var parts []string
	for _, g := range groups {
		parts = append(parts, phrase.Count(int64(g.Count))+" "+strings.ReplaceAll(g.Values[0], "_", " "))
	}
	return strings.Join(parts, ", "), nil
}

// Groups of failures and ops that the text shows.
const (
	maxGroups = 40
	maxOps    = 120
)

// markdown is the tracking table and the ledger.
func (p *progress) markdown() (string, error) {
	var b strings.Builder
	b.WriteString("## Progress\n\n| op | collector | perf file | smoke | full | rows | duplicates | consumer's check | notes |\n|---|---|---|---|---|---:|---|---|---|\n")
	for _, t := range p.ops[:min(len(p.ops), maxOps)] {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", phrase.Cell(t.op), phrase.Cell(t.collector), phrase.Cell(t.file),
			phrase.Cell(t.smoke), phrase.Cell(t.full), phrase.Count(int64(t.rows)), phrase.Cell(t.duplicates), phrase.Cell(t.consumer), phrase.Cell(t.notes))
	}
	if n := len(p.ops) - maxOps; n > 0 {
		fmt.Fprintf(&b, "\n...and %d more ops.\n", n)
	}
	b.WriteString("\n## Failures by group\n\n")
	groups, err := failures.Groups(p.ledgers, failures.Options{})
	if err != nil {
		return "", err
	}
	if len(groups) == 0 {
		b.WriteString("No case failed.\n")
		return b.String(), nil
	}
	if err := failures.WriteMarkdown(&b, groups[:min(len(groups), maxGroups)]); err != nil {
		return "", err
	}
	if n := len(groups) - maxGroups; n > 0 {
		fmt.Fprintf(&b, "\n...and %d more groups with %s cases: `aicplan failures -format markdown` has them all.\n", n, phrase.Count(int64(failures.Total(groups[maxGroups:]))))
	}
	return b.String(), nil
}

// glance is the release in a few lines, for texts without a report.
func (p *progress) glance() string {
	complete, partial := 0, 0
	for _, t := range p.ops {
		switch {
		case t.full == "complete":
			complete++
		case strings.HasPrefix(t.full, "**partial**"):
			partial++
		}
	}
	i := p.info
	var b strings.Builder
	b.WriteString("## Release at a glance\n\n")
	fmt.Fprintf(&b, "- %d of %d ops are complete, %d partial; %s rows\n", complete, len(p.ops), partial, phrase.Count(int64(p.rows)))
	if i.Version != "" {
		fmt.Fprintf(&b, "- measured by %s %s on %s (versions as the worker found them)\n", i.Framework, i.Version, cmp.Or(i.Device, "an unknown device"))
	}
	if i.Image != "" {
		fmt.Fprintf(&b, "- image `%s` %s\n", phrase.Cell(i.Image), phrase.Cell(i.ImageDigest))
	}
	if d := i.Env["driver"]; d != "" {
		fmt.Fprintf(&b, "- driver %s, CUDA %s\n", d, cmp.Or(i.Env["cuda"], "unknown"))
	}
	return b.String()
}
