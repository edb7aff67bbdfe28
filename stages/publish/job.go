package publish

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/atomic"
	"aicplan/sink/phrase"
	"aicplan/sink/tree"
)

// job is what a publish is to do: its commits in order, and the text for people.
type job struct {
	steps []step
	body  string
	gone  []string // exports that have not ended
}

// step is one commit.
type step struct {
	files   []file
	subject string
	body    string
	rows    int
}

// ErrNothing says that no export has ended.
var ErrNothing = errors.New("nothing has been exported yet")

// maxBody is the most characters of a pull request's text.
const maxBody = 65000

// prepare works out the commits. In a run every export has ended, and one without
// files is an error.
func (c *Config) prepare(rc *stage.RunContext) (*job, error) {
	if err := c.resolve(); err != nil {
		return nil, err
	}
	artifacts, missing := c.artifacts(rc)
	if len(missing) > 0 && c.waiting == nil {
		return nil, fmt.Errorf("%s wrote no file that could be committed", missing[0])
	}
	j := &job{gone: missing}
	var exports []*stage.Ref
	for _, r := range c.exports {
		if len(artifacts[r.Address]) > 0 {
			exports = append(exports, r)
		}
	}
	if len(exports) == 0 {
		return nil, ErrNothing
	}
	all, err := c.files(rc.OutDir, artifacts, exports) // also finds what two exports wrote
	if err != nil {
		return nil, err
	}
	if j.body, err = c.body(artifacts); err != nil {
		return nil, err
	}
	subject := strings.Join(strings.Fields(c.Message), " ")
	if c.Commits != "each" {
		s := step{files: all, subject: cmp.Or(subject, fmt.Sprintf("add perf data (%d files)", len(all))), body: j.body}
		for _, r := range exports {
			s.rows += rowsOf(artifacts[r.Address])
		}
		if names := partials(artifacts, exports); len(names) > 0 && c.Draft != nil {
			s.subject += " (partial)"
		}
		j.steps = []step{s}
	} else {
		for _, r := range exports {
			s := step{body: listed(artifacts, []*stage.Ref{r}), rows: rowsOf(artifacts[r.Address])}
			if s.files, err = c.files(rc.OutDir, artifacts, []*stage.Ref{r}); err != nil {
				return nil, err
			}
			s.subject = family(artifacts[r.Address], r, s.rows)
			if subject != "" {
				s.subject = subject + ": " + s.subject
			}
			if names := partials(artifacts, []*stage.Ref{r}); len(names) > 0 {
				s.subject += " (partial)"
				s.body = "Partial data: " + strings.Join(names, ", ") + " lack planned rows. They are no final tables.\n\n" + s.body
			}
			j.steps = append(j.steps, s)
		}
	}
	if c.Draft != nil {
		if j.body, err = c.text(rc, exports, j.body); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func rowsOf(list []stage.Artifact) (n int) {
	for _, a := range list {
		n += a.Rows
	}
	return n
}

// family names what a commit of one export adds.
func family(list []stage.Artifact, r *stage.Ref, rows int) string {
	name := r.Address
	for _, a := range list {
		if a.Rows > 0 {
			name = stem(a.Path)
			break
		}
	}
	return fmt.Sprintf("%s, %s rows", name, phrase.Count(int64(rows)))
}

// partials lists the tables that say of themselves that they are not whole: by the
// name of the file, or by the sidecar beside it.
func partials(artifacts map[string][]stage.Artifact, exports []*stage.Ref) []string {
	var out []string
	for _, r := range exports {
		for _, a := range artifacts[r.Address] {
			name := filepath.Base(a.Path)
			whole := !strings.Contains(name, ".partial.")
			if meta, err := tree.ReadMeta(filepath.Join(filepath.Dir(a.Path), tree.MetaFile)); err == nil && meta.Tables[stem(a.Path)].Status == tree.Partial {
				whole = false
			}
			if !whole {
				out = append(out, name)
			}
		}
	}
	return out
}

// text is the body of the pull request: how far every op is, what failed, and the
// report.
func (c *Config) text(rc *stage.RunContext, exports []*stage.Ref, report string) (string, error) {
	answers := consumer{}
	if c.Draft.Consumer != "" {
		path, err := atomic.Within(rc.OutDir, c.Draft.Consumer)
		if err != nil {
			return "", err
		}
		if answers, err = readConsumer(path); err != nil {
			return "", err
		}
	}
	own, err := rc.Store.ReadStage(exports[0].Address)
	if err != nil {
		return "", err
	}
	p, err := progressOf(rc.Store, own.Plan, c.waiting, answers)
	if err != nil {
		return "", err
	}
	head, err := p.markdown()
	if err != nil {
		return "", err
	}
	if !strings.Contains(report, "## Release at a glance") {
		head = p.glance() + "\n" + head
	}
	text := head + "\n" + report
	if runes := []rune(text); len(runes) > maxBody {
		cut := string(runes[:maxBody-200])
		text = cut[:strings.LastIndexByte(cut, '\n')+1] + "\nThe rest is longer than the text of a pull request may be; the report and `aicplan failures` have it.\n"
	}
	return text, nil
}

// Beside leaves out what the block does not say: publishes from before these
// attributes stay what they are.
func (c *Config) Beside() map[string]string {
	out := map[string]string{}
	if c.Commits == "" {
		out["commits"] = "it is not set"
	}
	if c.Draft == nil {
		out["draft"] = "it is not set"
	}
	return out
}
