#!/bin/bash
printf '%s|' "$QUOTED" "$DOLLAR" "$LINES" "$HOST" "$ONLY_SOLUTION" "$ONLY_VERIFIER" > /answer
tr '\0' '\n' < /proc/1/environ > /first
