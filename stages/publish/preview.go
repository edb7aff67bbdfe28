package publish

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/phrase"
)

// Exports are the addresses of the exports that are committed.
func (c *Config) Exports() []string {
	if c.resolve() != nil {
		return nil
	}
	var out []string
	for _, r := range c.exports {
		out = append(out, r.Address)
	}
	if c.report != nil {
		out = append(out, c.report.Address)
	}
	return out
}

// Ended is Run with what has ended so far, while a campaign goes on: exports that
// have not ended are left for later, and waiting are the ops that have no record.
func (c *Config) Ended(ctx context.Context, rc *stage.RunContext, waiting []string) (*stage.Outcome, error) {
	if err := c.keepEnded(rc); err != nil {
		return nil, err
	}
	c.waiting = append([]string{}, waiting...)
	return c.Run(ctx, rc)
}

func (c *Config) keepEnded(rc *stage.RunContext) error {
	if err := c.resolve(); err != nil {
		return err
	}
	if _, missing := c.artifacts(rc); len(missing) == len(c.exports) {
		return ErrNothing
	}
	return nil
}

// Preview writes what Ended would do, and does nothing: no object, no commit, no
// file, no call of GitHub.
func (c *Config) Preview(ctx context.Context, w io.Writer, rc *stage.RunContext, waiting []string) error {
	if err := c.keepEnded(rc); err != nil {
		return err
	}
	c.waiting = append([]string{}, waiting...)
	job, err := c.prepare(rc)
	if err != nil {
		return err
	}
	r := c.repository(rc)
	if err := r.check(ctx); err != nil {
		return err
	}
	head, err := r.resolve(ctx, "refs/heads/"+c.Branch)
	if err != nil {
		return err
	}
	base := head
	if head != "" {
		fmt.Fprintf(w, "branch %s of %s, at %s\n", c.Branch, r.dir, short(head))
	} else {
		if base, err = r.resolve(ctx, cmp.Or(c.Base, "HEAD")); err != nil {
			return err
		}
		fmt.Fprintf(w, "new branch %s of %s, from %s\n", c.Branch, r.dir, cmp.Or(short(base), "nothing"))
	}
	signed := ""
	if c.SignOff {
		who, err := r.identity(ctx)
		if err != nil {
			return err
		}
		signed = ", signed off by " + who
	}
	made := 0
	for _, s := range job.steps {
		lines, err := r.changes(ctx, base, s.files)
		if err != nil {
			return err
		}
		if len(lines) == 0 {
			fmt.Fprintf(w, "no commit: %s (the branch has these %d files)\n", s.subject, len(s.files))
			continue
		}
		made++
		fmt.Fprintf(w, "commit: %s (%s rows%s)\n", s.subject, phrase.Count(int64(s.rows)), signed)
		for _, line := range lines {
			fmt.Fprintln(w, "  "+line)
		}
	}
	for _, addr := range job.gone {
		fmt.Fprintf(w, "later: %s has not ended\n", addr)
	}
	switch {
	case !c.Push:
		fmt.Fprintln(w, "no push: the plan does not say push = true")
	case made == 0 && head != "":
		fmt.Fprintf(w, "push: %s to %s, where it is not there yet\n", c.Branch, c.Remote)
	default:
		fmt.Fprintf(w, "push: %s to %s\n", c.Branch, c.Remote)
	}
	body := filepath.Join(rc.OutDir, filepath.FromSlash(c.Body))
	if c.Draft != nil {
		fmt.Fprintf(w, "pull request: gh %s\n", quoted(c.Draft.listArgs(c.Branch)))
		fmt.Fprintf(w, "  none is open: gh %s\n", quoted(c.Draft.createArgs(c.Branch, body)))
		fmt.Fprintln(w, "  one is open:  its text is replaced, by gh pr edit or by the REST call")
	}
	fmt.Fprintf(w, "text: %s, %s characters:\n\n%s", body, phrase.Count(int64(len([]rune(job.body)))), job.body)
	return nil
}

// changes lists the files that a commit on top of base would add or change.
func (r repository) changes(ctx context.Context, base string, files []file) ([]string, error) {
	var out []string
	for _, f := range files {
		now, err := r.git(ctx, "", "hash-object", "--no-filters", "--", f.from)
		if err != nil {
			return nil, err
		}
		old, sign := "", "add   "
		if base != "" {
			if old, err = r.git(ctx, "", "rev-parse", "--verify", "--quiet", "--end-of-options", base+":"+f.to); err == nil {
				sign = "change"
			}
		}
		if old != now {
			out = append(out, sign+" "+f.to)
		}
	}
	return out, nil
}

// quoted shows arguments so that each can be told from the next.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\"'\\$`&|;<>()*?[]{}#~!\n") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
