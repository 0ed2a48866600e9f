package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// The registries' own limit of a manifest is 4 MiB; a Dockerfile is written by hand.
const dockerfileBytesMax = 1 << 20

// A failure that is the request's fault, with the reason that the gateway passes on.
type failure struct {
	reason  string
	message string
}

func (f failure) Error() string { return f.message }

func invalid(format string, values ...any) error {
	return failure{"dockerfile_invalid", fmt.Sprintf(format, values...)}
}

// The Dockerfile's text, the path staying inside the context whatever links lie there.
func readDockerfile(folder string, description *job) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Join(folder, "context"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(description.Dockerfile)
	if err != nil {
		return nil, invalid("the context has no file %q", description.Dockerfile)
	}
	if !info.Mode().IsRegular() || info.Size() > dockerfileBytesMax {
		return nil, invalid("%q is no file of at most %d bytes", description.Dockerfile,
			dockerfileBytesMax)
	}
	file, err := root.Open(description.Dockerfile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text := make([]byte, info.Size())
	count, err := file.Read(text)
	if err != nil && info.Size() > 0 {
		return nil, err
	}
	return text[:count], nil
}

// The built-in frontend stands in for the standard one of any version; another one would be
// somebody's program in place of the builder's.
func withoutSyntax(text []byte) ([]byte, error) {
	wanted, _, position, ok := parser.DetectSyntax(text)
	if !ok {
		return text, nil
	}
	named, err := reference.ParseNormalizedNamed(strings.Fields(wanted)[0])
	if err != nil {
		return nil, invalid("line 1: # syntax=%s names no frontend", wanted)
	}
	switch reference.FamiliarName(named) {
	case "docker/dockerfile", "docker/dockerfile-upstream":
	default:
		return nil, invalid("# syntax=%s: only the standard frontend docker/dockerfile is built with",
			wanted)
	}
	line := 1
	if len(position) > 0 {
		line = position[0].Start.Line
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if line >= 1 && line <= len(lines) {
		// The count of lines stays, so that errors name the right one.
		lines[line-1] = append([]byte("# the built-in frontend"),
			lines[line-1][len(bytes.TrimRight(lines[line-1], "\r\n")):]...)
	}
	return bytes.Join(lines, nil), nil
}

// What variables stand in a FROM line: arguments before the first stage, over those of the request.
type arguments map[string]string

func (a arguments) Get(key string) (string, bool) { value, ok := a[key]; return value, ok }
func (a arguments) Keys() []string {
	keys := make([]string, 0, len(a))
	for key := range a {
		keys = append(keys, key)
	}
	return keys
}

func metaArguments(description *job, declared []instructions.ArgCommand, lex *shell.Lex) arguments {
	platform := "linux/" + runtime.GOARCH
	known := arguments{"BUILDPLATFORM": platform, "TARGETPLATFORM": platform, "BUILDOS": "linux",
		"TARGETOS": "linux", "BUILDARCH": runtime.GOARCH, "TARGETARCH": runtime.GOARCH,
		"BUILDVARIANT": "", "TARGETVARIANT": ""}
	for _, command := range declared {
		for _, argument := range command.Args {
			if value, ok := description.Args[argument.Key]; ok {
				known[argument.Key] = value
			} else if argument.Value != nil {
				if word, err := lex.ProcessWordWithMatches(*argument.Value, known); err == nil {
					known[argument.Key] = word.Result
				}
			}
		}
	}
	return known
}

// The stages that `target` needs, by what they are built on and copy from; else names of images.
type walk struct {
	stages  []instructions.Stage
	known   arguments
	lex     *shell.Lex
	visited map[int]bool
	images  map[string]int // and the first line that names it
	wrong   error
}

func firstLine(ranges []parser.Range) int {
	if len(ranges) == 0 {
		return 0
	}
	return ranges[0].Start.Line
}

func (w *walk) stageOf(name string, before int) (int, bool) {
	for i := before - 1; i >= 0; i-- {
		if strings.EqualFold(w.stages[i].Name, name) && name != "" {
			return i, true
		}
	}
	return 0, false
}

func (w *walk) from(name string, before int, line int) {
	if index, ok := w.stageOf(name, before); ok {
		w.visit(index)
		return
	}
	if name != "" && name != "scratch" && name != "context" {
		if _, known := w.images[name]; !known {
			w.images[name] = line
		}
	}
}

func (w *walk) source(name string, before int, line int) {
	if index, err := strconv.Atoi(name); err == nil {
		if index < 0 || index >= before {
			w.wrong = invalid("line %d: there is no stage %d before it", line, index)
			return
		}
		w.visit(index)
		return
	}
	if name != "" {
		w.from(name, before, line)
	}
}

func (w *walk) visit(index int) {
	if w.visited[index] {
		return
	}
	w.visited[index] = true
	stage := w.stages[index]
	if word, err := w.lex.ProcessWordWithMatches(stage.BaseName, w.known); err == nil {
		w.from(word.Result, index, firstLine(stage.Location))
	}
	for _, command := range stage.Commands {
		switch c := command.(type) {
		case *instructions.CopyCommand:
			w.source(c.From, index, firstLine(c.Location()))
		case *instructions.RunCommand:
			_ = c.Expand(func(word string) (string, error) { return word, nil })
			for _, mount := range instructions.GetMounts(c) {
				w.source(mount.From, index, firstLine(c.Location()))
			}
		}
	}
}

// The images that the job is built on, with the line of each.
func basesOf(folder string) (map[string]int, error) {
	description, err := readJob(folder)
	if err != nil {
		return nil, err
	}
	text, err := readDockerfile(folder, description)
	if err != nil {
		return nil, err
	}
	if text, err = withoutSyntax(text); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, invalid("%s: %s", description.Dockerfile, located(err))
	}
	if !hasBuildKit() {
		if err := checkForBuildah(parsed.AST.Children); err != nil {
			return nil, err
		}
	}
	stages, declared, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, invalid("%s: %s", description.Dockerfile, located(err))
	}
	lex := shell.NewLex(parsed.EscapeToken)
	w := walk{stages: stages, known: metaArguments(description, declared, lex), lex: lex,
		visited: map[int]bool{}, images: map[string]int{}}
	last := len(stages) - 1
	if description.Target != "" {
		index, ok := w.stageOf(description.Target, len(stages))
		if number, err := strconv.Atoi(description.Target); !ok && err == nil && number >= 0 &&
			number <= last {
			index, ok = number, true
		}
		if !ok {
			return nil, invalid("%s has no stage %q", description.Dockerfile, description.Target)
		}
		last = index
	}
	if w.visit(last); w.wrong != nil {
		return nil, w.wrong
	}
	for name := range w.images {
		// What is no reference is left to the frontend, which has the words for it.
		if _, err := reference.ParseNormalizedNamed(name); err != nil {
			delete(w.images, name)
		}
	}
	return w.images, nil
}

// The parser's error with the line it knows.
func located(err error) string {
	var where *parser.LocationError
	if errors.As(err, &where) && len(where.Locations) > 0 && len(where.Locations[0]) > 0 {
		line := fmt.Sprintf("line %d: ", where.Locations[0][0].Start.Line)
		if !strings.Contains(err.Error(), line) {
			return line + err.Error()
		}
	}
	return err.Error()
}

// {"bases": {NAME: LINE}} or {"reason", "message"}: the answer is data, so the exit code is 0 for both.
func printBases(folder string) error {
	bases, err := basesOf(folder)
	var known failure
	if errors.As(err, &known) {
		return json.NewEncoder(os.Stdout).Encode(
			map[string]string{"reason": known.reason, "message": known.message})
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]map[string]int{"bases": bases})
}
