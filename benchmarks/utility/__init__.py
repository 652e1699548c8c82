"""What the released policies are worth: public problems, every learner, exact evaluation."""
