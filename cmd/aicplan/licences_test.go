package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLicences holds that docs/licences.md lists every module of go.mod, each
// with its pinned version and the licence that its files state. -update writes
// the list anew.
func TestLicences(t *testing.T) {
	t.Parallel()
	root := repoRoot(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "docs", "licences.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Skipf("go cannot be asked for its module cache: %v", err)
	}
	cache := strings.TrimSpace(string(out))
	listed := map[string]string{} // "path version" to licence
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| (.+) \|$`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "module" && !strings.HasPrefix(m[1], "-") {
			listed[m[1]+" "+m[2]] = m[3]
		}
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) (v\S+)`).FindAllStringSubmatch(string(mod), -1) {
		at := m[1] + " " + m[2]
		licence, err := licenceOf(filepath.Join(cache, escaped(m[1])+"@"+escaped(m[2])))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			licence = listed[at] // no build needs it, so it was never fetched
		case err != nil:
			t.Errorf("%s: %v", at, err)
		}
		if licence == "" {
			t.Errorf("the licence of %s is not known: fetch it with go mod download %s, and run this test with -update", at, m[1])
		}
		if got := listed[at]; got != licence && !*update {
			t.Errorf("docs/licences.md lists %s with %q, its files say %q: run this test with -update", at, got, licence)
		}
		delete(listed, at)
		lines = append(lines, fmt.Sprintf("| %s | %s | %s |", m[1], m[2], licence))
	}
	if len(lines) < 30 {
		t.Fatalf("go.mod seems to have only %d modules", len(lines))
	}
	if *update && !t.Failed() {
		slices.Sort(lines)
		head, _, _ := strings.Cut(string(text), "\n| module ")
		table := "\n| module | version | licence |\n|---|---|---|\n" + strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(page, []byte(head+table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for at := range listed {
		t.Errorf("docs/licences.md lists %s, which go.mod does not have: run this test with -update", at)
	}
}

// escaped is a path in the module cache, which has no capitals.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// licences are told by a sentence of theirs. Those that ask for the source of
// what they are linked into are not here, and so fail the test.
var licences = []struct{ name, sentence string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD", "Redistribution and use in source and binary forms"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
	{"OFL-1.1", "SIL OPEN FONT LICENSE"},
	{"FTL", "The FreeType License"},
	{"CC-BY-4.0", "Creative Commons Attribution 4.0 International Public License"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

// licenceOf reads the licence files of a module; some state it in their README
// alone.
func licenceOf(dir string) (string, error) {
	for _, pattern := range []string{"LICEN", "COPYING", "UNLICENSE", "README"} {
		if names, err := statedIn(dir, pattern); err != nil || names != "" {
			return names, err
		}
	}
	return "", fmt.Errorf("no file of %s states a licence that is known here", dir)
}

func statedIn(dir, prefix string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, f := range files {
		if f.IsDir() || !strings.HasPrefix(strings.ToUpper(f.Name()), prefix) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		text := strings.Join(strings.Fields(string(raw)), " ")
		for _, l := range licences {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(l.sentence)) {
				continue
			}
			name := l.name
			if name == "BSD" {
				name = "BSD-2-Clause"
				if strings.Contains(text, "Neither the name") || strings.Contains(text, "names of its contributors") {
					name = "BSD-3-Clause"
				}
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " and "), nil
}
