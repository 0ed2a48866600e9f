#!/bin/bash
cat seed > /one
