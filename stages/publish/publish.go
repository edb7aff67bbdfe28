package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/tree"
)

// alone serializes the publish stages of this process, because several may use the
// same repository.
var alone sync.Mutex

// Run commits the files of all exports. If the branch has the same files already,
// the outcome is its present commit.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	if _, missing := c.artifacts(rc); len(missing) > 0 {
		return nil, fmt.Errorf("%s wrote no file that could be committed", missing[0])
	}
	return c.Ended(ctx, rc)
}

// Ended commits the files of the exports that have ended so far.
func (c *Config) Ended(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	p, err := c.prepare(rc)
	if err != nil {
		return nil, err
	}

	alone.Lock()
	defer alone.Unlock()

	a, err := c.writeBody(rc.OutDir, p.body)
	if err != nil {
		return nil, err
	}

	// In the run's folder, which is removed with the run if this process is killed.
	index, err := os.MkdirTemp(rc.RunDir, "index-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(index)
	r := c.open(rc)
	r.env = append(r.env, "GIT_INDEX_FILE="+filepath.Join(index, "index"))

	commit, made, err := c.commit(ctx, r, p)
	if err != nil {
		return nil, err
	}

	files := textutil.Counted(len(p.files), "file")
	if !made {
		files = "the same " + files + " already"
	}
	out := &stage.Outcome{Status: stage.StatusOK, Artifacts: []stage.Artifact{a},
		Message: fmt.Sprintf("%s on %s has %s", short(commit), c.Branch, files),
		Values: map[string]cty.Value{
			"commit": cty.StringVal(commit), "branch": cty.StringVal(c.Branch), "pushed": cty.BoolVal(c.Push),
			"pull_request": cty.NullVal(cty.String),
		}}

	if c.Push {
		if r.git(ctx, "", "push", "--", c.Remote, "refs/heads/"+c.Branch+":refs/heads/"+c.Branch); r.err != nil {
			return nil, fmt.Errorf("%s is committed on %s, but not pushed: %w", short(commit), c.Branch, r.err)
		}
		out.Message += ", pushed to " + c.Remote
	}

	if c.Draft != nil {
		url, opened, err := c.Draft.update(ctx, c.Branch, a.Path)
		if err != nil {
			return nil, fmt.Errorf("%s is pushed to %s, but the pull request is not up to date: %w", c.Branch, c.Remote, err)
		}
		out.Values["pull_request"] = cty.StringVal(url)
		out.Message += map[bool]string{true: ", opened ", false: ", updated "}[opened] + url
	}

	return out, nil
}

func (c *Config) open(rc *stage.RunContext) *repository {
	r := &repository{dir: c.dir(rc.PlanDir)}
	if c.Author != nil {
		r.env = []string{
			"GIT_AUTHOR_NAME=" + c.Author.Name, "GIT_AUTHOR_EMAIL=" + c.Author.Email,
			"GIT_COMMITTER_NAME=" + c.Author.Name, "GIT_COMMITTER_EMAIL=" + c.Author.Email,
		}
	}

	return r
}

func short(commit string) string { return commit[:min(len(commit), 10)] }

// artifacts are the files that the exports wrote, by stage, and the exports that
// wrote none.
func (c *Config) artifacts(rc *stage.RunContext) (wrote map[string][]stage.Artifact, missing []string) {
	wrote = map[string][]stage.Artifact{}
	for _, f := range rc.Upstream() {
		if f.Outcome != nil {
			wrote[f.Address] = f.Outcome.Artifacts
		}
	}

	for _, r := range c.exports {
		if len(wrote[r.Address]) == 0 {
			missing = append(missing, r.Address)
		}
	}

	return wrote, missing
}

// files returns the files to commit and their places, sorted by place.
func (c *Config) files(outDir string, artifacts map[string][]stage.Artifact) ([]file, error) {
	var out []file
	seen := map[string]bool{} // several exports list the spec of their system
	add := func(from string) (inside bool) {
		rel, err := filepath.Rel(outDir, from)
		if err != nil || !filepath.IsLocal(rel) {
			return false
		}
		if to := c.place(rel); !seen[to] {
			seen[to] = true
			out = append(out, file{from, to})
		}
		return true
	}

	for _, r := range c.exports {
		for _, a := range artifacts[r.Address] {
			if !add(a.Path) {
				return nil, fmt.Errorf(
					"%s was exported to %s, outside of this run's output folder %s; apply with the same --out-dir, or with "+
						"--replace %s",
					r.Address,
					a.Path,
					outDir,
					r.Address,
				)
			}
			if name, how := tree.Changed(a.Path, a.Digest, a.Entry); how != "" {
				return nil, fmt.Errorf("%s wrote %s, which %s; apply the plan again, so that the gates judge what is published",
					r.Address, name, how)
			}
		}
	}

	// What the exports put next to their tables belongs to the database too.
	for _, name := range sidecars(out) {
		add(name)
	}

	slices.SortFunc(out, func(a, b file) int { return cmp.Compare(a.to, b.to) })
	return out, nil
}

// sidecars lists what the layout "families" puts next to its tables, and next to the data folder.
func sidecars(files []file) []string {
	const root = "../../../../.." // of data/SYSTEM/FAMILY/BACKEND/VERSION
	var out []string
	for _, f := range files {
		for _, name := range []string{
			tree.MetaFile, tree.ReuseFile, catalog.SchemaFile(catalog.Stem(f.from)),
			root + "/" + tree.SlotsFile, root + "/" + tree.LanesFile,
		} {
			beside := filepath.Join(filepath.Dir(f.from), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
				out = append(out, beside)
			}
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// body is the report's Markdown, or without a report a list of the files.
func (c *Config) body(artifacts map[string][]stage.Artifact) (string, error) {
	if c.report == nil || len(artifacts[c.report.Address]) == 0 {
		return listed(artifacts, c.exports), nil
	}

	for _, a := range artifacts[c.report.Address] {
		if strings.HasSuffix(a.Path, ".md") {
			data, err := os.ReadFile(a.Path)
			if err != nil {
				return "", fileutil.Explain("read the report", a.Path, err)
			}
			return string(data), nil
		}
	}

	return "", fmt.Errorf("%s wrote no Markdown; add \"markdown\" to its format", c.report.Address)
}

// listed is a table of the files of some exports.
func listed(artifacts map[string][]stage.Artifact, exports []*stage.Ref) string {
	var b strings.Builder
	b.WriteString("| file | rows | digest |\n|---|---:|---|\n")

	for _, r := range exports {
		for _, a := range artifacts[r.Address] {
			fmt.Fprintf(&b, "| `%s` | %d | `%s` |\n", filepath.Base(a.Path), a.Rows, a.Digest)
		}
	}

	return b.String()
}

func (c *Config) writeBody(outDir, body string) (stage.Artifact, error) {
	path, err := fileutil.Place(outDir, bodyFile)
	if err != nil {
		return stage.Artifact{}, err
	}

	digest, err := fileutil.WriteFile(path, []byte(body))
	return stage.Artifact{Path: path, Digest: digest}, err
}

// commit puts the files on the branch. made is false when they were there.
func (c *Config) commit(ctx context.Context, r *repository, s *commitPlan) (id string, made bool, err error) {
	r.check(ctx)
	if where := r.checkedOut(ctx, c.Branch); where != "" {
		return "", false, fmt.Errorf(
			"the branch %s is checked out in %s, whose files would no longer agree with it; check another branch out there, "+
				"or name another branch",
			c.Branch,
			where,
		)
	}

	ref := "refs/heads/" + c.Branch
	head := r.resolve(ctx, ref)
	parent := head
	if parent == "" {
		parent = r.resolve(ctx, "HEAD")
	}
	treeID := r.tree(ctx, parent, s.files)
	if head != "" {
		if old, err := r.try(ctx, "rev-parse", "--verify", head+"^{tree}"); err == nil && old == treeID {
			return head, false, nil
		}
	}

	args := []string{"commit-tree", treeID, "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	if r.err != nil {
		return "", false, r.err // message would take it for its own
	}
	id = r.git(ctx, c.message(ctx, r, s), args...)
	if r.err != nil {
		return "", false, r.err
	}

	// With the old value, the update fails if another process has moved the branch.
	old := cmp.Or(head, strings.Repeat("0", len(id)))
	if r.git(ctx, "", "update-ref", "-m", "aicplan publish", ref, id, old); r.err != nil {
		return "", false, fmt.Errorf("the branch %s moved meanwhile; run again: %w", c.Branch, r.err)
	}
	return id, true, nil
}

// message is the subject, the body and who signs it off.
func (c *Config) message(ctx context.Context, r *repository, s *commitPlan) string {
	who := r.git(ctx, "", "var", "GIT_COMMITTER_IDENT")
	if r.err != nil {
		r.err = fmt.Errorf(
			"git does not know who commits; add author { name = \"...\" email = \"...\" } to the publish block, or set git "+
				"config user.name and user.email: %w",
			r.err,
		)
	}

	who = who[:strings.LastIndexByte(who, '>')+1] // without the time
	return fmt.Sprintf("%s\n\n%s\n\nSigned-off-by: %s\n", s.subject, strings.TrimRight(s.body, "\n"), who)
}

// ErrNothing is returned if no export has ended.
var ErrNothing = errors.New("no export has ended yet")

// commitPlan is the content of one commit.
type commitPlan struct {
	files   []file
	subject string
	body    string
	missing []string // exports that have not ended
}

// prepare collects the files of the exports that have ended.
func (c *Config) prepare(rc *stage.RunContext) (*commitPlan, error) {
	artifacts, missing := c.artifacts(rc)
	if len(missing) == len(c.exports) {
		return nil, ErrNothing
	}

	files, err := c.files(rc.OutDir, artifacts)
	if err != nil {
		return nil, err
	}

	body, err := c.body(artifacts)
	if err != nil {
		return nil, err
	}

	subject := strings.Join(strings.Fields(c.Message), " ")
	if subject == "" {
		subject = fmt.Sprintf("add perf data (%s)", textutil.Counted(len(files), "file"))
	}
	return &commitPlan{files: files, subject: subject, body: body, missing: missing}, nil
}

// Exports are the addresses of the exports, and of the report.
func (c *Config) Exports() []string {
	var out []string
	for _, r := range c.exports {
		out = append(out, r.Address)
	}

	if c.report != nil {
		out = append(out, c.report.Address)
	}
	return out
}

// Preview prints what Ended would commit and push. It changes nothing.
func (c *Config) Preview(ctx context.Context, w io.Writer, rc *stage.RunContext) error {
	p, err := c.prepare(rc)
	if err != nil {
		return err
	}

	r := c.open(rc)
	if r.check(ctx); r.err != nil {
		return r.err
	}

	fmt.Fprintf(w, "commit on %s of %s: %s\n", c.Branch, r.dir, p.subject)

	for _, f := range p.files {
		fmt.Fprintf(w, "  %s\n", f.to)
	}

	for _, address := range p.missing {
		fmt.Fprintf(w, "not included: %s has not ended\n", address)
	}

	if c.Push {
		fmt.Fprintf(w, "push to %s\n", c.Remote)
	}

	if c.Draft != nil {
		fmt.Fprintf(w, "draft pull request to %s: %s\n", c.Draft.Repository, c.Draft.Title)
	}

	_, err = fmt.Fprintf(w, "text in %s:\n\n%s", filepath.Join(rc.OutDir, bodyFile), p.body)
	return err
}
