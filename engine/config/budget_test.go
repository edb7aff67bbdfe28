package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/engine/stage/stagetest"
)

// TestBudget checks that plans which describe more than the machine has memory for fail with one
// error at the place that exceeds the budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	var lists, texts strings.Builder
	for i := range 30 {
		fmt.Fprintf(&lists, "  a%d = [local.a%d, local.a%[2]d, local.a%[2]d, local.a%[2]d]\n", i+1, i)
		fmt.Fprintf(&texts, "  a%d = \"${local.a%d}${local.a%[2]d}${local.a%[2]d}${local.a%[2]d}\"\n", i+1, i)
	}

	long := strings.Repeat("a", 1000)
	for name, c := range map[string]struct{ text, want string }{
		"lists of lists": {"locals {\n  a0 = 1\n" + lists.String() + "}\n", "Value too large: local.a10"},
		"texts of texts": {"locals {\n  a0 = \"text\"\n" + texts.String() + "}\n", "Value too large: local.a12"},
		"replace": {fmt.Sprintf("locals {\n  b = %q\n  a = replace(replace(local.b, \"a\", local.b), \"a\", "+
			"local.b)\n}\n", long), "more than 16 MB"},
		"join": {fmt.Sprintf("locals {\n  b = [for i in range(20000) : %q]\n  a = join(\", \", local.b)\n}\n",
			long), "Value too large: local.b"},
		"join in one value": {fmt.Sprintf("locals {\n  a = join(\", \", [for i in range(2000) : %q])\n}\n",
			strings.Repeat(long, 10)), "more than 16 MB"},
		"loop of a text": {fmt.Sprintf("locals {\n  a = \"%%{ for i in range(20000) }%s%%{ endfor }\"\n}\n", long),
			"Value too large: The list"},
		"nested loops": {"locals {\n  l = range(3000)\n  a = [for i in range(20000) : [for j in local.l : j]]\n}\n",
			"Plan too large: The for expressions"},
		"for_each": {"thing \"a\" {\n  for_each = { for i in flatten([range(20000), range(20000, 20001)]) : \"k${i}\" " +
			"=> i }\n}\n", "Plan too large: The plan has more than 20000 stages"},
		"a long file": {strings.Repeat("# comment\n", 500_000), "File too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "plan.hcl")
			if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			budgetError(t, path, c.want)
		})
	}
}

// TestBudgetOfModules checks that modules which contain several modules each do not multiply without
// limit.
func TestBudgetOfModules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 13 {
		text := "thing \"a\" {}\n"
		if i < 12 {
			text = ""
			for _, name := range []string{"a", "b", "c"} {
				text += fmt.Sprintf("module %q {\n  source = \"../m%d\"\n}\n", name, i+1)
			}
		}

		sub := filepath.Join(dir, fmt.Sprintf("m%d", i))
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, "main.hcl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	budgetError(t, filepath.Join(dir, "m0"), "Plan too large: The plan has more than 20000 stages and modules")
}

// TestBudgetFitsLargePlans checks that lists and loops far larger than those of real plans are accepted.
func TestBudgetFitsLargePlans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.hcl")
	text := `locals {
  sizes = flatten([for i in range(10) : range(i * 5000, (i + 1) * 5000)])
  pairs = [for a in range(100) : [for b in range(100) : { a = a, b = b }]]
  text  = join("", [for i in range(1000) : "0123456789"])
}
thing "a" {
  for_each = { for i in range(5000) : "k${i}" => i }
}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs := loadThings(path); len(errs) > 0 {
		t.Error(errs)
	}
}

func loadThings(path string) (*Config, []string) {
	c, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{"thing": stagetest.Thing()},
		Systems: testSystem})
	var out []string
	for _, d := range diags {
		out = append(out, d.Summary+": "+d.Detail)
	}
	return c, out
}

func budgetError(t *testing.T, path, want string) {
	t.Helper()
	_, errs := loadThings(path)
	if len(errs) != 1 || !strings.Contains(errs[0], want) {
		t.Errorf("got %d errors, want one with %q: %.300s", len(errs), want, strings.Join(errs, "\n"))
	}
}
