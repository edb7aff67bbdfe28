package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// savedFormat is the version of the file format. It grows if older files cannot be read any more.
const savedFormat = "aicplan-plan/2"

// Saved is the file of plan --out. It contains how to make the plan again, and identifies the result.
type Saved struct {
	Format   string   `json:"format"`
	Version  string   `json:"aicplan"`
	Path     string   `json:"path"`
	Vars     []string `json:"vars,omitempty"`
	VarFiles []string `json:"var_files,omitempty"`
	Environ  []string `json:"environ,omitempty"` // variables set by the environment
	// Sensitive lists the variables whose values are not saved. They must be given again to apply the plan.
	Sensitive []string `json:"sensitive,omitempty"`
	Options   Options  `json:"options"`
	// Summary is the summary that was printed.
	Summary Summary `json:"summary"`
	// Stages identifies the work of every stage, by address.
	Stages map[string]SavedStage `json:"stages"`
}

// SavedStage identifies one stage of a saved plan.
type SavedStage struct {
	Kind string `json:"kind"`
	// Body contains the values of the block including those of its runtimes, system specs and files. If the block
	// depends on other stages, it contains the source text and the known values that it uses.
	Body  json.RawMessage `json:"body"`
	Cases int             `json:"cases,omitempty"`
}

// Withholds reports whether NAME=VALUE sets a variable that is not saved.
func (s *Saved) Withholds(assignment string) bool {
	name, _, _ := strings.Cut(assignment, "=")
	return slices.Contains(s.Sensitive, strings.TrimSpace(name))
}

// Save writes a plan to path.
func Save(path string, p *Plan, s Saved) error {
	s.Format = savedFormat
	abs, err := filepath.Abs(s.Path)
	if err != nil {
		return err
	}
	s.Path = abs
	s.Stages, s.Summary = savedStages(p), Summarize(p)
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return fileutil.WriteNamed(path, fileutil.Bytes(append(data, '\n')))
}

// IsSaved reports whether path is a saved plan and not a plan in HCL.
func IsSaved(path string) bool {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return false
	}
	data, err := fileutil.ReadText(path)
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(data)), "{") &&
		strings.Contains(string(data[:min(len(data), 200)]), `"format"`)
}

// Open reads a saved plan.
func Open(path string) (*Saved, error) {
	data, err := fileutil.ReadText(path)
	if err != nil {
		return nil, err
	}
	var s Saved
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s is no saved plan: %w", path, err)
	}
	if s.Format != savedFormat {
		return nil, fmt.Errorf(
			"%s was saved by another aicplan (format %q, this one reads %q): plan again with --out",
			path,
			s.Format,
			savedFormat,
		)
	}
	return &s, nil
}

// Changed lists the differences between p and the saved plan. If there are none, applying p applies the saved
// plan. The state folder may reduce the work since, but p must not collect cases that the saved plan reuses.
func (s *Saved) Changed(p *Plan) []string {
	now := savedStages(p)
	var out []string
	for addr, old := range s.Stages {
		cur, ok := now[addr]
		switch {
		case !ok:
			out = append(out, addr+" is gone")
		case cur.Cases != old.Cases:
			out = append(out, fmt.Sprintf("%s has %s instead of %d", addr, textutil.Counted(cur.Cases, "case"), old.Cases))
		default:
			for _, line := range checkpoint.Explain(old.Body, cur.Body) {
				out = append(out, addr+": "+strings.TrimPrefix(line, "block."))
			}
		}
	}

	for addr := range now {
		if _, ok := s.Stages[addr]; !ok {
			out = append(out, addr+" is new")
		}
	}

	if len(out) == 0 {
		out = s.moreToCollect(p)
	}

	sort.Strings(out)
	return out
}

// moreToCollect lists the stages that collect more cases than in the saved plan, such as after a change of an op's
// code.
func (s *Saved) moreToCollect(p *Plan) []string {
	before := map[string]int{}
	for _, old := range s.Summary.Stages {
		if n, known := old.toCollect(); known {
			before[old.Address] = n
		}
	}

	var out []string
	for _, now := range Summarize(p).Stages {
		n, known := now.toCollect()
		if old, ok := before[now.Address]; ok && known && n > old {
			out = append(out, fmt.Sprintf("%s has %s to collect instead of %d (%s)", now.Address,
				textutil.Counted(n, "case"), old, now.Reason))
		}
	}
	return out
}

// toCollect returns how many cases a stage that measures collects, and whether that is known.
func (s StageSummary) toCollect() (n int, known bool) {
	switch {
	case !s.Measures:
		return 0, false
	case s.Cases != nil:
		return s.Cases.Collect, true
	}
	return 0, s.Action == stage.ActionReuse
}

func savedStages(p *Plan) map[string]SavedStage {
	out := map[string]SavedStage{}
	for _, s := range p.Stages {
		ss := SavedStage{Kind: s.Instance.Kind.Name}
		ss.Body = p.body(s)
		if s.Plan != nil && s.Plan.Data != nil && s.Plan.Data.Planned != nil {
			ss.Cases = table.Len(s.Plan.Data.Planned)
		}

		out[s.Address()] = ss
	}

	return out
}

// body returns everything that determines the run of a stage, including attributes that do not shape data.
func (p *Plan) body(s *Stage) json.RawMessage {
	k := s.Instance.Kind
	body := map[string]any{"kind": k.Name, "version": k.Version, "waits for": s.Instance.Deps}
	if k.Code != nil {
		body["code"] = k.Code()
	}
	if s.Late {
		body["text"], body["known"] = p.Config.Text(s.Instance), p.Config.Known(s.Instance)
	} else {
		body["block"] = stage.Values(s.Config)
	}
	if s.Plan != nil && s.Plan.KeyExtra != nil {
		body["files"] = s.Plan.KeyExtra
	}
	_, canonical := checkpoint.MustKey(body)
	return canonical
}
