// Package publish commits what a run exported to a branch of a git repository,
// with the report as the message's body. It does not change the repository's work tree, and it
// pushes only if the plan sets push.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// Kind registers the publish stage.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "publish",
		Class:   stage.Publish,
		Version: 2,
		Summary: "commit the exports to a branch of a git repository",
		Outputs: map[string]cty.Type{
			// commit that has the files
			"commit": cty.String,
			// branch of the commit
			"branch": cty.String,
			// whether the branch was pushed
			"pushed": cty.Bool,
			// address of the draft pull request; null if there is none
			"pull_request": cty.String,
		},
		New: func() stage.Stage { return &Config{} },
	}
}

// bodyFile receives the text for a pull request, below the output folder.
const bodyFile = "pr_body.md"

// Config is a publish block.
type Config struct {
	// Value (reference, list or object) is the exports whose files and sidecars are committed.
	Value cty.Value `hcl:"exports"`
	// Report is a report stage whose Markdown is the body of the commit message. The default is a list of the files.
	Report cty.Value `hcl:"report,optional"`
	// Repository is a clone or a bare repository, relative to the plan's folder.
	Repository string `hcl:"repository"`
	// Branch is the branch of the commit. It is created from HEAD if it does not exist.
	Branch string `hcl:"branch"`
	// Path is the folder of the repository for the files, which keep their paths below `--out-dir`.
	Path string `hcl:"path,optional"`
	// Message is the first line of the commit message.
	Message string `hcl:"message,optional"`
	// Push pushes the branch.
	Push bool `hcl:"push,optional"`
	// Remote is the remote to push to.
	Remote string `hcl:"remote,optional"`
	// Author is the author of the commit. Without the block, git's own user is.
	Author *Author `hcl:"author,block"`
	// Draft opens and updates a draft pull request of the branch; it needs `push = true`.
	Draft *Draft `hcl:"draft,block"`

	exports []*stage.Ref
	report  *stage.Ref
}

// Author is who commits; without one it is git's own user.
type Author struct {
	// Name of the author.
	Name string `hcl:"name" json:"name"`
	// Email of the author.
	Email string `hcl:"email" json:"email"`
}

var (
	branchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*[A-Za-z0-9]$|^[A-Za-z0-9]$`)
	remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)
	var err error
	if c.exports, err = stage.RefsOf(c.Value); err != nil {
		bad("Wrong reference", "exports: %s.", err)
	} else if len(c.exports) == 0 {
		bad("Wrong reference", "exports is empty: there would be nothing to commit.")
	}

	if stage.IsSet(c.Report) {
		if c.report, err = stage.RefOf(c.Report); err != nil {
			bad("Wrong reference", "report: %s.", err)
		}
	}

	for _, r := range c.exports {
		if r != nil && r.Kind != "export" {
			bad("Not an export", "exports names %s, which writes no perf files; name export stages.", r.Address)
		}
	}

	if c.report != nil && c.report.Kind != "report" {
		bad("Not a report", "report names %s; name a report stage.", c.report.Address)
	}

	if !branchName.MatchString(c.Branch) || strings.Contains(c.Branch, "..") || strings.Contains(c.Branch, "//") ||
		strings.HasSuffix(c.Branch, ".lock") {
		bad("Wrong branch", "%q is no name of a branch, such as \"data/h200_sxm-trtllm-1.3.0\".", c.Branch)
	}

	if c.Path != "" && !filepath.IsLocal(c.Path) {
		bad("Path outside the repository", "%q leads out of the repository; path is a folder inside of it.", c.Path)
	}

	if c.Push && c.Remote == "" {
		bad("No remote", "push = true needs the remote to push to, for example remote = \"origin\".")
	}

	if c.Remote != "" && !remoteName.MatchString(c.Remote) {
		bad(
			"Wrong remote",
			"%q is no name of a remote; add it to the repository with git remote add, and give its name.",
			c.Remote,
		)
	}

	if d := c.Draft; d != nil {
		d.check(c, bad)
	}

	if a := c.Author; a != nil && (a.Name == "" || !strings.Contains(a.Email, "@") ||
		strings.ContainsAny(a.Name+a.Email, "<>\n")) {
		bad("Wrong author", "An author has a name and an address, without angle brackets.")
	}

	return diags
}

// Inputs are the exports, so that the branch is stale when one of them is.
func (c *Config) Inputs() []stage.Input {
	return stage.InputsOf("exports", c.exports, false)
}

// KeyExtra returns the current commit of the branch, so that the stage is stale if the branch has moved.
func (c *Config) KeyExtra(ctx context.Context, pc *stage.PlanContext) (any, hcl.Diagnostics) {
	r := repository{dir: c.dir(pc.PlanDir)}
	commit := r.resolve(ctx, "refs/heads/"+c.Branch)
	if r.err != nil {
		return nil, nil // Run reports what is wrong with the repository
	}
	return map[string]string{"branch": commit}, nil
}

func (c *Config) dir(planDir string) string {
	if filepath.IsAbs(c.Repository) {
		return c.Repository
	}
	return filepath.Join(planDir, c.Repository)
}

// place is where a file of the output folder goes in the repository.
func (c *Config) place(rel string) string {
	return path.Join(filepath.ToSlash(c.Path), filepath.ToSlash(rel))
}

// Draft is the draft pull request for the branch. It is opened once; later runs
// replace its text only.
type Draft struct {
	// Repository is the GitHub repository that receives the pull request, as OWNER/NAME.
	Repository string `hcl:"repository" json:"repository"`
	// Base is the branch to merge into. The default is "main".
	Base string `hcl:"base,optional" json:"base,omitempty"`
	// Owner is the owner of the fork that has the branch. The default is the owner of repository.
	Owner string `hcl:"owner,optional" json:"owner,omitempty"`
	// Title is the title with which the pull request is opened. Later updates keep the current title.
	Title string `hcl:"title" json:"title"`
}

var (
	repoName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$`)
	ownerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
)

func (d *Draft) check(c *Config, bad func(summary, format string, args ...any)) {
	if !repoName.MatchString(d.Repository) {
		bad("Wrong repository", "%q is no repository of GitHub, such as \"ai-dynamo/aiconfigurator\".", d.Repository)
	}

	if !c.Push {
		bad(
			"Draft without push",
			"A draft pull request needs a pushed branch: set push = true and remote, or remove the draft block.",
		)
	}

	if d.Owner != "" && !ownerName.MatchString(d.Owner) {
		bad("Wrong owner", "%q is no name of a user or an organisation.", d.Owner)
	}

	if d.Base != "" && (!branchName.MatchString(d.Base) || strings.Contains(d.Base, "..")) {
		bad("Wrong base", "%q is no name of a branch.", d.Base)
	}

	if d.Title == "" || strings.ContainsAny(d.Title, "\r\n") {
		bad("Wrong title", "A pull request has a title of one line.")
	}
}

// update opens the draft pull request of the branch, or replaces the text of the
// open one. It returns its URL.
func (d *Draft) update(ctx context.Context, branch, body string) (url string, opened bool, err error) {
	head := branch
	if d.Owner != "" {
		head = d.Owner + ":" + branch
	}

	url, err = gh(ctx, "pr", "list", "--repo", d.Repository, "--head", branch, "--state", "open", "--json", "url",
		"--jq", ".[0].url // empty")
	if err != nil {
		return "", false, err
	}

	if url != "" {
		_, err := gh(ctx, "pr", "edit", url, "--body-file", body)
		return url, false, err
	}

	out, err := gh(ctx, "pr", "create", "--repo", d.Repository, "--head", head, "--base", cmp.Or(d.Base, "main"),
		"--title", d.Title, "--body-file", body, "--draft")
	lines := strings.Split(out, "\n")
	return strings.TrimSpace(lines[len(lines)-1]), true, err
}

// gh runs GitHub's command line without a shell.
func gh(ctx context.Context, args ...string) (string, error) {
	out, said, err := command(ctx, []string{"GH_NO_UPDATE_NOTIFIER=1", "NO_COLOR=1"}, "", "gh", args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New(
			"gh is not installed; install GitHub's command line, or remove the draft block and open the pull request with the " +
				"text in the body file",
		)
	case err != nil:
		return "", fmt.Errorf("gh %s: %w: %s", strings.Join(args[:2], " "), err, firstLines(said))
	}

	return strings.TrimSpace(out), nil
}
