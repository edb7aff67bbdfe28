package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

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
